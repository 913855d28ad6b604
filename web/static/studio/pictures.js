/** Files of jobs as blob URLs: few are fetched at once, and those out of sight are let go. */

/** Fetched at once; streams of events need connections as well. */
const AT_ONCE = 2;

export class Pictures {
  /** @param {import("./api.js").Api} api */
  constructor(api) {
    this.api = api;
    /** By element: what stops the fetch, and the URL once there is one. */
    this.held = new Map();
    this.running = 0;
    this.waiting = [];
  }

  /**
   * Shows a file of a job in an image or video, unless that is what it shows.
   *
   * @returns {Promise<boolean>} whether it is shown now
   */
  async show(element, id, variant) {
    const name = `${id}/${variant}`;
    const now = this.held.get(element);
    if (now?.name === name) return now.done;
    this.release(element);
    const holding = { name, stop: new AbortController(), url: "", done: null };
    this.held.set(element, holding);
    holding.done = this.#load(element, holding, id, variant);
    return holding.done;
  }

  /** Lets go of what an element shows. */
  release(element) {
    const holding = this.held.get(element);
    if (!holding) return;
    this.held.delete(element);
    holding.stop.abort();
    if (holding.url) {
      element.removeAttribute("src");
      URL.revokeObjectURL(holding.url);
    }
  }

  async #load(element, holding, id, variant) {
    const { signal } = holding.stop;
    await this.#place();
    try {
      if (signal.aborted) return false;
      const blob = await this.api.content(id, variant, signal);
      if (signal.aborted) return false;
      holding.url = URL.createObjectURL(blob);
      element.src = holding.url;
      return true;
    } catch {
      if (this.held.get(element) === holding) this.held.delete(element);
      return false;
    } finally {
      this.#leave();
    }
  }

  async #place() {
    if (this.running >= AT_ONCE) await new Promise((resolve) => this.waiting.push(resolve));
    this.running += 1;
  }

  #leave() {
    this.running -= 1;
    this.waiting.shift()?.();
  }
}

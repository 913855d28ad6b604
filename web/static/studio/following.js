/**
 * Follows jobs that have not ended. A few by a stream of events each, as a browser holds only six
 * connections to a server; the others by asking for the list now and then.
 */
import { ENDED } from "./wall.js";

export const STREAMS = 3;
export const POLL_MS = 3000;

/** Waits before a stream that broke is opened again, in ms. */
const AGAIN_MS = [300, 1000, 3000, 8000];

const GONE = 404;

export class Follower {
  /**
   * @param {object} options
   * @param {import("./api.js").Api} options.api
   * @param {(job: object) => void} options.onJob
   * @param {(id: string, at: number, url: string) => void} options.onPreview
   * @param {(id: string) => void} options.onGone it was deleted
   * @param {(error: Error|null) => void} options.onTrouble the server could not be asked; null: it can again
   * @param {() => Promise<void>} options.onPoll to ask for the list
   * @param {(call: () => void, ms: number) => unknown} [options.later] starts a timer
   */
  constructor({ api, later = (call, ms) => setTimeout(call, ms), ...handlers }) {
    this.api = api;
    this.later = later;
    this.handlers = handlers;
    /** By id, what ends the stream. */
    this.streams = new Map();
    this.polling = false;
    this.wanted = [];
  }

  /** @param {string[]} ids jobs that have not ended, the most urgent first */
  want(ids) {
    this.wanted = ids;
    for (const [id, stop] of this.streams) if (!ids.includes(id)) stop.abort();
    for (const id of ids) {
      if (this.streams.size >= STREAMS) break;
      if (!this.streams.has(id)) this.#follow(id);
    }
    if (ids.some((id) => !this.streams.has(id))) this.#poll();
  }

  /** Ends all streams. */
  close() {
    this.want([]);
  }

  async #follow(id) {
    const stop = new AbortController();
    this.streams.set(id, stop);
    const seen = { last: "", failures: 0 };
    while (!stop.signal.aborted) {
      if (await this.#stream(id, seen, stop.signal)) break;
      const wait = AGAIN_MS[Math.min(seen.failures, AGAIN_MS.length - 1)];
      seen.failures += 1;
      await new Promise((resolve) => this.later(resolve, wait));
    }
    this.streams.delete(id);
    this.want(this.wanted.filter((each) => each !== id || !stop.signal.aborted));
  }

  /** @returns {Promise<boolean>} whether there is nothing more to come */
  async #stream(id, seen, signal) {
    try {
      for await (const event of this.api.events(id, seen.last, signal)) {
        if (seen.failures > 0) this.handlers.onTrouble(null);
        // A server that answers and then breaks off at once is not asked ever more often.
        if (event.name !== "open") seen.failures = 0;
        seen.last = event.id || seen.last;
        if (this.#take(id, event)) return true;
      }
    } catch (error) {
      if (signal.aborted) return true;
      if (error.status === GONE) return this.#gone(id);
      this.handlers.onTrouble(error);
    }
    return signal.aborted;
  }

  #take(id, { name, data }) {
    if (name === "job.deleted") return this.#gone(id);
    if (name === "job.preview") {
      this.handlers.onPreview(id, data.picture ?? 0, data.image);
      return false;
    }
    if (!data.id) return false;
    const ended = ENDED.has(data.state);
    // No longer wanted before it is told, so that it is not opened again.
    if (ended) this.wanted = this.wanted.filter((each) => each !== id);
    this.handlers.onJob(data);
    return ended;
  }

  #gone(id) {
    this.wanted = this.wanted.filter((each) => each !== id);
    this.handlers.onGone(id);
    return true;
  }

  #poll() {
    if (this.polling) return;
    this.polling = true;
    this.later(async () => {
      try {
        await this.handlers.onPoll();
        this.handlers.onTrouble(null);
      } catch (error) {
        this.handlers.onTrouble(error);
      }
      this.polling = false;
      this.want(this.wanted);
    }, POLL_MS);
  }
}

/** One picture or clip, large, with everything that makes it again. */
import { callsOf } from "./calls.js";
import { make, radios } from "./elements.js";
import { duration, factsOf, took } from "./facts.js";
import { failure } from "./problems.js";
import { MOTION, SMALL } from "./tiles.js";
import { variant } from "./wall.js";

export class Viewer {
  /**
   * @param {(id: string) => HTMLElement} byId
   * @param {object} parts
   * @param {import("./pictures.js").Pictures} parts.pictures
   * @param {(act: string, key: string) => void} parts.onAct
   * @param {(way: number) => void} parts.onTurn to the next
   * @param {(key: string) => void} parts.onClosed told what was shown last
   * @param {(job: object) => object} parts.serverOf what {@link callsOf} wants to know
   * @param {(text: string) => void} parts.announce
   */
  constructor(byId, { pictures, onAct, onTurn, onClosed, serverOf, announce }) {
    this.byId = byId;
    this.pictures = pictures;
    this.serverOf = serverOf;
    this.announce = announce;
    this.dialog = byId("viewer");
    this.image = byId("viewer-image");
    this.video = byId("viewer-video");
    this.call = { curl: "", python: "" };
    this.key = "";
    for (const [id, act] of [
      ["viewer-anew", "anew"],
      ["viewer-again", "again"],
      ["viewer-compare", "compare"],
      ["viewer-save", "save"],
      ["viewer-delete", "delete"],
    ]) {
      byId(id).addEventListener("click", () => onAct(act, this.key));
    }
    byId("viewer-back").addEventListener("click", () => onTurn(-1));
    byId("viewer-on").addEventListener("click", () => onTurn(1));
    byId("viewer-close").addEventListener("click", () => this.dialog.close());
    byId("copy-call").addEventListener("click", () => this.#copy());
    for (const each of radios("call")) each.addEventListener("change", () => this.#showCall());
    this.dialog.addEventListener("close", () => {
      onClosed(this.key);
      this.#empty();
    });
    this.dialog.addEventListener("click", ({ target }) => {
      if (target === this.dialog || target.id === "viewer-stage") this.dialog.close();
    });
  }

  get isOpen() {
    return this.dialog.open;
  }

  /** @param {{key: string, job: object, at: number}} tile @param {{first: boolean, last: boolean}} place */
  show(tile, { first, last }) {
    const { byId } = this;
    const other = this.key !== tile.key;
    this.key = tile.key;
    byId("viewer-title").textContent = tile.job.tasks[tile.at].prompt;
    byId("viewer-facts").replaceChildren(...this.#facts(tile).flatMap(([name, value]) => [make("dt", "", name), make("dd", "", value)]));
    byId("viewer-back").disabled = first;
    byId("viewer-on").disabled = last;
    const made = tile.job.state === "completed";
    for (const id of ["viewer-compare", "viewer-save"]) byId(id).hidden = !made;
    this.call = callsOf(tile.job, tile.at, this.serverOf(tile.job));
    this.#showCall();
    if (!this.dialog.open) this.dialog.showModal();
    if (other || this.shownState !== tile.job.state) this.#picture(tile);
    this.shownState = tile.job.state;
  }

  close() {
    this.dialog.close();
  }

  #facts({ job, at }) {
    const rows = factsOf(job, at).filter(({ name }) => name !== "prompt").map(({ label, value }) => [label, value]);
    rows.push(["Made", new Date(job.created_at * 1000).toLocaleString()]);
    if (took(job) > 0) rows.push(["Took", duration(took(job))]);
    return rows;
  }

  async #picture({ job, at }) {
    const { image, video, byId } = this;
    const task = job.tasks[at];
    const clip = job.kind === "video";
    const shown = clip ? video : image;
    this.pictures.release(clip ? image : video);
    image.hidden = true;
    video.hidden = true;
    byId("viewer-mat").style.setProperty("--aspect", String(task.width / task.height));
    byId("viewer-mat").dataset.small = String(Math.max(task.width, task.height) <= SMALL);
    const word = byId("viewer-word");
    word.hidden = job.state === "completed";
    word.textContent = job.state === "completed" ? "" : failure(job);
    if (job.state !== "completed") return;
    image.alt = task.prompt;
    video.setAttribute("aria-label", task.prompt);
    const done = await this.pictures.show(shown, job.id, variant("content", at));
    if (!this.isOpen || this.key !== `${job.id}/${at}`) return;
    shown.hidden = !done;
    word.hidden = done;
    if (!done) word.textContent = "The file could not be had. Close this and try again.";
    else if (clip && matchMedia(MOTION).matches) video.play().catch(() => {});
  }

  #empty() {
    this.pictures.release(this.image);
    this.pictures.release(this.video);
    this.key = "";
    this.shownState = "";
  }

  #showCall() {
    const kind = radios("call").find((each) => each.checked).value;
    this.byId("call-text").textContent = this.call[kind];
  }

  async #copy() {
    const text = this.byId("call-text");
    try {
      await navigator.clipboard.writeText(text.textContent);
      this.#copied("Copied");
    } catch {
      // Pages that are not secure have no clipboard: the text is marked, to be copied by hand.
      getSelection().selectAllChildren(text);
      this.#copied("Marked, copy it by hand");
    }
  }

  #copied(word) {
    const button = this.byId("copy-call");
    button.textContent = word;
    this.announce(word);
    setTimeout(() => {
      button.textContent = "Copy";
    }, 2000);
  }
}

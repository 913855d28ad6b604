/** Two pictures side by side, with what differs between them marked. */
import { make } from "./elements.js";
import { compared } from "./facts.js";
import { MOTION, SMALL } from "./tiles.js";
import { variant } from "./wall.js";

export class Beside {
  /**
   * @param {(id: string) => HTMLElement} byId
   * @param {import("./pictures.js").Pictures} pictures
   */
  constructor(byId, pictures) {
    this.pictures = pictures;
    this.dialog = byId("compare");
    this.two = byId("compare-two");
    this.rows = byId("compare-rows");
    this.shown = [];
    byId("compare-close").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("close", () => this.#empty());
  }

  get isOpen() {
    return this.dialog.open;
  }

  show(first, second) {
    this.#empty();
    this.two.replaceChildren(...[first, second].map((tile) => this.#side(tile)));
    this.rows.replaceChildren(...compared(first, second).map(row));
    this.dialog.showModal();
  }

  #side({ job, at }) {
    const task = job.tasks[at];
    const mat = make("div", "mat");
    mat.style.setProperty("--aspect", String(task.width / task.height));
    mat.dataset.small = String(Math.max(task.width, task.height) <= SMALL);
    const element = make(job.kind === "video" ? "video" : "img");
    const still = !matchMedia(MOTION).matches;
    if (job.kind === "video") Object.assign(element, { loop: true, muted: true, playsInline: true, controls: still, autoplay: !still });
    else element.alt = task.prompt;
    mat.append(element);
    this.shown.push(element);
    this.pictures.show(element, job.id, variant("content", at));
    return mat;
  }

  #empty() {
    for (const element of this.shown) this.pictures.release(element);
    this.shown = [];
    this.two.replaceChildren();
  }
}

function row({ label, first, second, differs }) {
  const line = make("tr");
  line.dataset.differs = String(differs);
  const head = make("th", "", label);
  head.scope = "row";
  if (differs) head.append(make("span", "unseen", " (differs)"));
  line.append(head, make("td", "", first), make("td", "", second));
  return line;
}

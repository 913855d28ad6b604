/** The debug panel, for ?debug: how the reply's sound came and was played in the last 30 s. */
import { drawTrace } from "./debug-plot.js";
import { REPLY_HEADS, Trace } from "./debug-trace.js";

/** Between two pictures: 30 a second, or 4 where motion is unwelcome. */
const FRAME_MS = 33;
const STEADY_MS = 250;

/** Between two changes of the text. */
const TEXT_MS = 1000;

export class DebugPanel {
  /**
   * @param {HTMLElement} before the panel is put before this element
   * @param {() => {in: number, out: number}} traffic bytes over the socket so far
   */
  constructor(before, traffic) {
    this.trace = new Trace();
    this.traffic = traffic;
    this.shown = [];
    this.drawnAt = -Infinity;
    this.textAt = -Infinity;
    this.running = false;
    this.#build(before);
    this.pen = this.canvas.getContext("2d");
    this.motion = matchMedia("(prefers-reduced-motion: reduce)");
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#restyle());
    new ResizeObserver(() => this.#resize()).observe(this.canvas);
    this.#restyle();
    this.#resize();
  }

  /** Takes what the assistant tells. */
  take(kind, fields) {
    this.trace.take(kind, fields, performance.now());
    if (!this.running) {
      this.running = true;
      requestAnimationFrame((now) => this.#frame(now));
    }
  }

  #build(before) {
    const section = make("section", "debug");
    section.setAttribute("aria-labelledby", "debug-title");
    const title = make("h2", "unseen", "Playback in the last 30 seconds");
    title.id = "debug-title";
    this.canvas = make("canvas");
    this.canvas.id = "debug-timeline";
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", "Time line of buffered audio and of chunks as they came");
    this.canvas.setAttribute("aria-describedby", "debug-summary");
    this.summary = make("p", "", "");
    this.summary.id = "debug-summary";
    const details = make("details");
    details.append(make("summary", "", "Replies, as the server counts them"), this.#table());
    section.append(title, this.canvas, this.summary, details);
    before.before(section);
  }

  #table() {
    const table = make("table");
    table.id = "debug-replies";
    const head = make("tr");
    for (const name of REPLY_HEADS) {
      const cell = make("th", "", name);
      cell.scope = "col";
      head.append(cell);
    }
    this.rows = make("tbody");
    const top = make("thead");
    top.append(head);
    table.append(top, this.rows);
    const box = make("div", "wide");
    // It scrolls, so the keyboard must reach it.
    box.tabIndex = 0;
    box.append(table);
    return box;
  }

  #frame(now) {
    const least = this.motion.matches ? STEADY_MS : FRAME_MS;
    if (now - this.drawnAt >= least) this.#draw(now);
    if (now - this.textAt >= TEXT_MS) this.#write(now);
    this.running = !this.trace.isEmpty(now);
    if (this.running) requestAnimationFrame((next) => this.#frame(next));
  }

  #draw(now) {
    this.drawnAt = now;
    drawTrace(this.pen, this.size, this.colors, this.trace, now);
  }

  #write(now) {
    this.textAt = now;
    this.trace.bytes(this.traffic(), now);
    this.summary.textContent = this.trace.summary(now);
    const { replies } = this.trace;
    if (replies[0] === this.shown[0]) return;
    this.shown = [...replies];
    this.rows.replaceChildren(...replies.map(row));
  }

  #restyle() {
    const style = getComputedStyle(this.canvas);
    const value = (name) => style.getPropertyValue(name).trim();
    this.colors = {
      ink: value("--ink"),
      soft: value("--ink-soft"),
      line: value("--line"),
      call: value("--call"),
      response: value("--response-fill"),
      warn: value("--warn"),
      font: `11px ${value("--sans")}`,
    };
    if (this.size) this.#draw(performance.now());
  }

  #resize() {
    const ratio = Math.min(3, globalThis.devicePixelRatio || 1);
    this.size = { width: this.canvas.clientWidth, height: this.canvas.clientHeight };
    this.canvas.width = Math.round(this.size.width * ratio);
    this.canvas.height = Math.round(this.size.height * ratio);
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#draw(performance.now());
    this.#write(performance.now());
  }
}

function row(cells) {
  const element = make("tr");
  element.append(...cells.map((text) => make("td", "", text)));
  return element;
}

function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

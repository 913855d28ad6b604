/** The wall: a tile for each picture, from the moment it is asked for. */
import { icon, make, setText } from "./elements.js";
import { pace, standing } from "./facts.js";
import { failure } from "./problems.js";
import { ENDED, variant } from "./wall.js";

/** Bars of a tile's progress. */
const BEATS = 28;

/** Pictures up to so many pixels a side are shown with their pixels crisp, and are not thumbnails. */
export const SMALL = 128;

/** Letters of what fits in one line of a tile. */
const LONG = 30;

const NEEDS_PICTURE = new Set(["save", "compare"]);

/** Whether a person wants to see things move. */
export const MOTION = "(prefers-reduced-motion: no-preference)";

const TEXTS = { completed: "", failed: "Failed", cancelled: "Cancelled" };

export class Tiles {
  /**
   * @param {HTMLElement} list
   * @param {object} parts
   * @param {import("./pictures.js").Pictures} parts.pictures
   * @param {import("./wall.js").Wall} parts.wall
   * @param {(act: string, key: string) => void} parts.onAct "open", "cancel", ...
   */
  constructor(list, { pictures, wall, onAct }) {
    this.list = list;
    this.pictures = pictures;
    this.wall = wall;
    this.onAct = onAct;
    this.tiles = new Map();
    /** The tile that Tab reaches; arrows move it. */
    this.current = "";
    this.near = new IntersectionObserver((seen) => this.#onNear(seen), { rootMargin: "800px 0px" });
    list.addEventListener("keydown", (event) => this.#onArrow(event));
    list.addEventListener("focusin", ({ target }) => this.#makeCurrent(target.closest(".tile")?.dataset.key ?? ""));
  }

  /** Draws what the wall holds; `now` in the page's milliseconds. */
  update(kind, chosen, now) {
    const shown = this.wall.tiles(kind);
    const keys = new Set(shown.map(({ key }) => key));
    for (const [key, tile] of this.tiles) if (!keys.has(key)) this.#drop(key, tile);
    if (!keys.has(this.current)) this.current = shown[0]?.key ?? "";
    const around = this.wall.survey(now);
    let before = null;
    for (const { key, job, at } of shown) {
      const tile = this.tiles.get(key) ?? this.#add(key, job, at);
      const place = before ? before.nextSibling : this.list.firstChild;
      // A moved element would lose the focus, so only what is out of place moves.
      if (place !== tile.element) this.list.insertBefore(tile.element, place);
      before = tile.element;
      this.#show(tile, job, around);
      tile.element.dataset.chosen = String(key === chosen);
      for (const button of tile.stops) button.tabIndex = key === this.current ? 0 : -1;
    }
  }

  /** @returns {string|null} the tile that has the focus */
  get focused() {
    return document.activeElement?.closest?.(".tile")?.dataset.key ?? null;
  }

  focus(key = this.current) {
    this.tiles.get(key)?.open.focus();
  }

  /** Shows a tile as soon as it has been asked for, also where the wall is below the form. */
  reveal(key) {
    this.#makeCurrent(key);
    this.tiles.get(key)?.element.scrollIntoView({ block: "nearest" });
  }

  #add(key, job, at) {
    const task = job.tasks[at];
    const element = make("li", "tile");
    element.dataset.key = key;
    // Its room is known before there is a picture.
    element.style.setProperty("--aspect", String(Math.min(2.4, Math.max(0.5, task.width / task.height))));
    const open = make("button", "open");
    open.type = "button";
    const image = make("img");
    Object.assign(image, { alt: "", width: task.width, height: task.height, hidden: true, draggable: false });
    image.dataset.small = String(Math.max(task.width, task.height) <= SMALL);
    const beats = make("span", "beats");
    const said = make("span", "said");
    open.append(image, beats, said);
    if (job.kind === "video") open.append(badge());
    const foot = make("div", "foot-of");
    const title = make("span", "title", task.prompt);
    title.title = `${task.prompt}\nSeed ${task.seed}`;
    const meta = make("span", "meta");
    const stop = button("stop", "#icon-end", "Cancel", () => this.onAct("cancel", key));
    const tools = this.#tools(key);
    foot.append(title, meta);
    element.append(open, foot, stop, tools);
    open.addEventListener("click", () => this.onAct("open", key));
    if (job.kind === "video") this.#bindPlaying(open, key);
    const tile = { key, id: job.id, at, element, open, image, beats, said, meta, stop, tools, near: false, shown: "" };
    tile.stops = [open, stop, ...tools.children];
    tile.bars = fillBeats(beats, task.seed);
    this.tiles.set(key, tile);
    this.near.observe(element);
    return tile;
  }

  #tools(key) {
    const tools = make("div", "tools-of");
    for (const [act, symbol, label] of [
      ["anew", "#icon-die", "The same with a new seed"],
      ["compare", "#icon-compare", "Compare"],
      ["save", "#icon-save", "Download"],
      ["delete", "#icon-delete", "Delete"],
    ]) {
      tools.append(button(act, symbol, label, () => this.onAct(act, key)));
    }
    return tools;
  }

  #show(tile, job, around) {
    const { element } = tile;
    const ended = ENDED.has(job.state);
    if (ended && tile.job === job) return;
    tile.job = job;
    element.dataset.state = job.state;
    tile.stop.hidden = ended || this.wall.stopping.has(job.id);
    tile.tools.hidden = !ended;
    for (const each of tile.tools.children) each.hidden = job.state !== "completed" && NEEDS_PICTURE.has(each.dataset.act);
    const word = ended ? TEXTS[job.state] : standing(job, around(job));
    setText(tile.said, job.state === "failed" ? failure(job) : word);
    setText(tile.meta, ended ? "" : pace(job));
    tile.open.setAttribute("aria-label", label(job, tile.at, word));
    tile.element.setAttribute("aria-busy", String(!ended));
    // A longer text, of what to do, has all the room.
    element.dataset.long = String(job.state === "queued" && word.length > LONG);
    this.#beat(tile, job, ended);
    this.#picture(tile, job);
  }

  /** Clips play while they are pointed at or have the focus. */
  #bindPlaying(open, key) {
    const start = () => this.#play(this.tiles.get(key));
    const stop = () => this.#stop(this.tiles.get(key));
    for (const name of ["pointerenter", "focus"]) open.addEventListener(name, start);
    for (const name of ["pointerleave", "blur"]) open.addEventListener(name, stop);
  }

  async #play(tile) {
    if (tile?.job?.state !== "completed" || tile.video || !matchMedia(MOTION).matches) return;
    const video = make("video");
    Object.assign(video, { loop: true, muted: true, playsInline: true, hidden: true });
    video.dataset.small = tile.image.dataset.small;
    tile.video = video;
    tile.image.after(video);
    if (!(await this.pictures.show(video, tile.id, "content")) || tile.video !== video) return;
    // Once it moves: until then the still is seen.
    video.addEventListener("playing", () => (video.hidden = false), { once: true });
    video.play().catch(() => {});
  }

  #stop(tile) {
    if (!tile?.video) return;
    this.pictures.release(tile.video);
    tile.video.remove();
    tile.video = null;
  }

  #beat(tile, job, ended) {
    tile.beats.hidden = ended;
    if (ended || tile.progress === job.progress) return;
    tile.progress = job.progress;
    const done = Math.round((job.progress / 100) * BEATS);
    tile.bars.forEach((bar, at) => bar.classList.toggle("done", at < done));
  }

  #picture(tile, job) {
    const { image } = tile;
    if (job.state === "completed") {
      if (tile.near) this.#load(tile, job);
      return;
    }
    const preview = this.wall.previews.get(tile.key);
    if (ENDED.has(job.state)) {
      image.hidden = true;
    } else if (preview && tile.shown !== preview) {
      tile.shown = preview;
      image.src = preview;
      image.hidden = false;
    }
  }

  async #load(tile, job) {
    const task = job.tasks[tile.at];
    const small = job.kind === "image" && Math.max(task.width, task.height) <= SMALL;
    const shown = await this.pictures.show(tile.image, job.id, variant(small ? "content" : "thumbnail", tile.at));
    if (shown && tile.near) tile.image.hidden = false;
  }

  #onNear(seen) {
    for (const { target, isIntersecting } of seen) {
      const tile = this.tiles.get(target.dataset.key);
      if (!tile) continue;
      tile.near = isIntersecting;
      const job = this.wall.jobs.get(tile.id);
      if (job?.state !== "completed") continue;
      if (isIntersecting) {
        this.#load(tile, job);
      } else {
        tile.image.hidden = true;
        this.pictures.release(tile.image);
      }
    }
  }

  #drop(key, tile) {
    this.near.unobserve(tile.element);
    this.pictures.release(tile.image);
    this.#stop(tile);
    if (tile.element.contains(document.activeElement)) this.#focusBeside(tile.element);
    tile.element.remove();
    this.tiles.delete(key);
  }

  #focusBeside(element) {
    const beside = element.nextElementSibling ?? element.previousElementSibling;
    beside?.querySelector(".open").focus();
  }

  #makeCurrent(key) {
    if (!key || key === this.current) return;
    const stops = (of) => this.tiles.get(of)?.stops ?? [];
    for (const each of stops(this.current)) each.tabIndex = -1;
    for (const each of stops(key)) each.tabIndex = 0;
    this.current = key;
  }

  #onArrow(event) {
    const tile = event.target.closest(".tile");
    if (!tile || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = neighbour(tile, event.key);
    if (!next) return;
    event.preventDefault();
    next.querySelector(".open").focus();
  }
}

function badge() {
  const element = make("span", "badge");
  element.append(icon("#icon-clip"));
  return element;
}

/** @returns {Element|null|undefined} where an arrow leads */
function neighbour(tile, key) {
  if (key === "ArrowLeft") return tile.previousElementSibling;
  if (key === "ArrowRight") return tile.nextElementSibling;
  if (key === "Home") return tile.parentElement.firstElementChild;
  if (key === "End") return tile.parentElement.lastElementChild;
  return key === "ArrowUp" || key === "ArrowDown" ? inNextRow(tile, key === "ArrowDown" ? 1 : -1) : null;
}

/** The tile of the next row that is straight above or below, as nearly as there is one. */
function inNextRow(tile, way) {
  const own = tile.getBoundingClientRect();
  const middle = (box) => box.left + box.width / 2;
  let row = null;
  let best = null;
  const step = way > 0 ? "nextElementSibling" : "previousElementSibling";
  for (let each = tile[step]; each; each = each[step]) {
    const box = each.getBoundingClientRect();
    if (Math.abs(box.top - own.top) < 2) continue;
    row ??= box.top;
    if (Math.abs(box.top - row) >= 2) break;
    const off = Math.abs(middle(box) - middle(own));
    if (!best || off < best.off) best = { each, off };
  }
  return best?.each ?? null;
}

function button(act, symbol, label, onClick) {
  const element = make("button", "round");
  Object.assign(element, { type: "button", title: label });
  element.dataset.act = act;
  element.setAttribute("aria-label", label);
  element.append(icon(symbol));
  element.addEventListener("click", onClick);
  return element;
}

/** Bars of a rhythm that each seed has of its own. */
function fillBeats(beats, seed) {
  let state = (seed ^ 0x9e3779b9) >>> 0 || 1;
  const bars = Array.from({ length: BEATS }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const bar = make("i");
    bar.style.setProperty("--tall", String(0.3 + (0.7 * (state >>> 16)) / 65535));
    return bar;
  });
  beats.append(...bars);
  return bars;
}

function label(job, at, word) {
  const what = job.kind === "video" ? "Clip" : "Picture";
  const which = job.tasks.length > 1 ? ` ${at + 1} of ${job.tasks.length}` : "";
  return `${what}${which}: ${job.tasks[at].prompt}${word ? `. ${word}` : ""}`;
}

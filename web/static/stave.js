/**
 * Draws both voices on one time line: what is said above the axis, what is answered below it, and
 * the measured time between them. With reduced motion it draws two steady meters instead.
 */

/** Time that a column stands for. */
const COLUMN_MS = 40;

/** Width of a column and of its bar, in CSS pixels. */
const PITCH = 5;
const BAR = 3;

/** Room on each side of the axis, for the labels on it. */
const AXIS = 9;

/** Columns kept: a line 5000 pixels wide. */
const MAX_COLUMNS = 1000;

/** Marks kept; more do not fit on the line. */
const MAX_MARKS = 20;

/** A reply's level older than this is over. */
const STALE_MS = 160;

/** With reduced motion the meters change four times a second. */
const STEADY_MS = 250;

export class Stave {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {() => void} onFrame called with each frame while time passes
   */
  constructor(canvas, onFrame) {
    this.canvas = canvas;
    this.onFrame = onFrame;
    this.pen = canvas.getContext("2d");
    this.columns = [];
    this.marks = [];
    this.peak = { mic: 0, reply: 0 };
    this.last = { mic: 0, reply: 0 };
    this.lastAt = { mic: 0, reply: 0 };
    this.total = 0;
    this.columnAt = null;
    this.running = false;
    this.drawnAt = 0;
    this.motion = matchMedia("(prefers-reduced-motion: reduce)");
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.motion.addEventListener("change", () => this.draw(performance.now()));
    this.scheme.addEventListener("change", () => this.#restyle());
    new ResizeObserver(() => this.#resize()).observe(canvas);
    this.#restyle();
    this.#resize();
  }

  /** Takes a loudness, 0..1, of "mic" or "reply". */
  level(side, value) {
    this.last[side] = value;
    this.lastAt[side] = performance.now();
    this.peak[side] = Math.max(this.peak[side], value);
  }

  /** Marks a gap of `ms` that ends now. */
  mark(ms) {
    const end = this.total;
    this.marks.push({ start: end - ms / COLUMN_MS, end, label: `${ms} ms` });
    if (this.marks.length > MAX_MARKS) this.marks.shift();
  }

  /** Lets time pass, or stops it. */
  run(on) {
    if (on === this.running) return;
    this.running = on;
    this.columnAt = null;
    if (on) requestAnimationFrame((now) => this.#frame(now));
  }

  /** The loudness that shows now. */
  current(side) {
    return performance.now() - this.lastAt[side] > STALE_MS ? 0 : this.last[side];
  }

  draw(now) {
    const { pen, width, height } = this;
    pen.clearRect(0, 0, width, height);
    this.#lines();
    if (this.motion.matches) this.#meters();
    else this.#bars(now);
  }

  #frame(now) {
    if (!this.running) return;
    this.#advance(now);
    if (!this.motion.matches || now - this.drawnAt > STEADY_MS) {
      this.drawnAt = now;
      this.draw(now);
      this.onFrame();
    }
    requestAnimationFrame((next) => this.#frame(next));
  }

  /** Adds the columns that are due; a tab that slept skips what it missed. */
  #advance(now) {
    this.columnAt ??= now;
    if (now - this.columnAt > COLUMN_MS * MAX_COLUMNS) this.columnAt = now;
    while (now - this.columnAt >= COLUMN_MS) {
      this.columnAt += COLUMN_MS;
      this.columns.push(this.#column());
      this.total += 1;
    }
    if (this.columns.length > MAX_COLUMNS) this.columns.splice(0, this.columns.length - MAX_COLUMNS);
  }

  #column() {
    const column = {};
    for (const side of ["mic", "reply"]) {
      column[side] = Math.max(this.peak[side], this.current(side));
      this.peak[side] = 0;
    }
    return column;
  }

  #lines() {
    const { pen, width, height, colors } = this;
    pen.fillStyle = colors.line;
    const middle = Math.round(height / 2);
    for (const part of [-0.78, -0.4, 0.4, 0.78]) {
      pen.fillRect(0, Math.round(middle + (part * height) / 2), width, 1);
    }
  }

  #bars(now) {
    const { pen, width, height, colors, columns } = this;
    const middle = height / 2;
    const reach = middle - AXIS - 4;
    const drift = this.columnAt === null ? 0 : Math.min(1, (now - this.columnAt) / COLUMN_MS);
    const right = width - 8 - drift * PITCH;
    for (let age = 0; age < columns.length; age += 1) {
      const x = right - age * PITCH;
      if (x < -PITCH) break;
      const { mic, reply } = columns[columns.length - 1 - age];
      if (mic > 0.02) this.#bar(x, middle - AXIS, -reach * mic, colors.call);
      if (reply > 0.02) this.#bar(x, middle + AXIS, reach * reply, colors.response);
    }
    for (const mark of this.marks) this.#mark(mark, right, middle);
    pen.globalAlpha = 1;
  }

  #bar(x, y, length, color) {
    const { pen } = this;
    pen.fillStyle = color;
    pen.beginPath();
    pen.roundRect(x, Math.min(y, y + length), BAR, Math.max(BAR, Math.abs(length)), BAR / 2);
    pen.fill();
  }

  /** A bracket over the time in which nobody spoke, with its length. */
  #mark({ start, end, label }, right, middle) {
    const { pen, colors } = this;
    const from = right - (this.total - start) * PITCH;
    const to = right - (this.total - end) * PITCH;
    if (to < -80) return;
    pen.fillStyle = colors.soft;
    pen.fillRect(from, middle - 0.5, to - from, 1);
    pen.fillRect(from, middle - 4, 1, 8);
    pen.fillRect(to - 1, middle - 4, 1, 8);
    pen.font = colors.font;
    const wide = pen.measureText(label).width + 10;
    const center = (from + to) / 2;
    pen.fillStyle = colors.back;
    pen.fillRect(center - wide / 2, middle - 8, wide, 16);
    pen.fillStyle = colors.ink;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(label, center, middle);
  }

  #meters() {
    const { width, height, colors } = this;
    const left = Math.min(96, width / 4);
    const span = width - left - 16;
    this.#meter(left, height / 2 - 16, span * this.current("mic"), colors.call);
    this.#meter(left, height / 2 + 8, span * this.current("reply"), colors.response);
  }

  #meter(x, y, length, color) {
    this.pen.fillStyle = color;
    this.pen.fillRect(x, y, Math.max(2, length), 8);
  }

  #restyle() {
    const style = getComputedStyle(this.canvas);
    const value = (name) => style.getPropertyValue(name).trim();
    this.colors = {
      call: value("--dock-call"),
      response: value("--dock-response"),
      line: value("--dock-line"),
      soft: value("--dock-soft"),
      ink: value("--dock-ink"),
      back: value("--dock"),
      font: `12px ${value("--sans")}`,
    };
    if (this.width) this.draw(performance.now());
  }

  #resize() {
    const ratio = Math.min(3, globalThis.devicePixelRatio || 1);
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.draw(performance.now());
  }
}

/** Draws the debug panel's time line: above what waits to be played, below the chunks as they came. */
import { SPAN_MS } from "./debug-trace.js";

/** Room for the scales at the left, the marks' words at the top and the seconds below, in CSS pixels. */
const LEFT = 52;
const TOP = 18;
const BOTTOM = 16;

/** Part of the height that the buffer takes. */
const UPPER = 0.55;

const GAP = 10;

/**
 * @param {CanvasRenderingContext2D} pen in CSS pixels
 * @param {{width: number, height: number}} size
 * @param {{ink: string, soft: string, line: string, call: string, response: string, warn: string,
 *   font: string}} colors
 * @param {import("./debug-trace.js").Trace} trace
 * @param {number} now ms
 */
export function drawTrace(pen, { width, height }, colors, trace, now) {
  pen.clearRect(0, 0, width, height);
  pen.font = colors.font;
  const plot = {
    pen,
    colors,
    top: TOP,
    middle: Math.round(TOP + (height - BOTTOM - TOP) * UPPER),
    bottom: height - BOTTOM,
    right: width - 4,
    x: (at) => width - 4 - ((now - at) * (width - 4 - LEFT)) / SPAN_MS,
  };
  pen.globalAlpha = 1;
  drawGrid(plot, now, width);
  drawGaps(plot, trace.gaps, now);
  drawBuffer(plot, trace.buffers, now);
  drawChunks(plot, trace.chunks, now);
  drawMarks(plot, [
    ...young(trace.cuts, now).map(({ at }) => ({ at, color: colors.call, word: "cut" })),
    ...young(trace.firsts, now).map(({ at, ms }) => ({ at, color: colors.ink, word: `${ms} ms` })),
  ]);
}

function drawGrid({ pen, colors, top, bottom, middle, right, x }, now, width) {
  const step = width < 480 ? 10000 : 5000;
  pen.fillStyle = colors.line;
  pen.fillRect(LEFT, middle, right - LEFT, 1);
  pen.fillRect(LEFT, bottom, right - LEFT, 1);
  for (let ago = 0; ago <= SPAN_MS; ago += step) {
    pen.fillStyle = colors.line;
    pen.fillRect(Math.round(x(now - ago)), top, 1, bottom - top);
    pen.fillStyle = colors.soft;
    pen.textBaseline = "alphabetic";
    pen.textAlign = ago === 0 ? "right" : "center";
    pen.fillText(ago === 0 ? "now" : `−${ago / 1000} s`, x(now - ago), bottom + BOTTOM - 3);
  }
}

/** Names a lane and its scale. */
function drawScale({ pen, colors }, name, ms, from, to) {
  pen.fillStyle = colors.soft;
  pen.textAlign = "right";
  pen.textBaseline = "top";
  pen.fillText(ms >= 1000 ? `${ms / 1000} s` : `${ms} ms`, LEFT - 6, from - 4);
  pen.textBaseline = "bottom";
  pen.fillText(name, LEFT - 6, to + 2);
}

function drawGaps({ pen, colors, top, bottom, x }, gaps, now) {
  pen.fillStyle = colors.warn;
  for (const { at, from } of young(gaps, now)) {
    const left = Math.max(LEFT, x(from));
    pen.fillRect(left, top, Math.max(3, x(at) - left), bottom - top);
  }
}

function drawBuffer(plot, buffers, now) {
  const { pen, colors, top, middle, x } = plot;
  const points = young(buffers, now);
  const scale = niceScale(points, 1000);
  drawScale(plot, "buffer", scale, top, middle);
  if (points.length === 0) return;
  const y = (ms) => middle - ((middle - top) * ms) / scale;
  pen.beginPath();
  pen.moveTo(x(points[0].at), middle);
  let before = points[0].at;
  for (const { at, ms } of points) {
    // Nothing is told while nothing is there.
    if (at - before > 500) {
      pen.lineTo(x(before), middle);
      pen.lineTo(x(at), middle);
    }
    pen.lineTo(x(at), y(ms));
    before = at;
  }
  pen.lineTo(x(before), middle);
  pen.fillStyle = colors.response;
  pen.globalAlpha = 0.45;
  pen.fill();
  pen.globalAlpha = 1;
}

function drawChunks(plot, chunks, now) {
  const { pen, colors, middle, bottom, x } = plot;
  const points = young(chunks, now);
  const scale = niceScale(points, 100);
  drawScale(plot, "chunks", scale, middle + GAP, bottom);
  pen.fillStyle = colors.response;
  for (const { at, ms } of points) {
    const tall = Math.max(2, ((bottom - middle - GAP) * ms) / scale);
    pen.fillRect(x(at) - 1, bottom - tall, 3, tall);
  }
}

/** Lines through both lanes, with their words above; where they crowd, the newest have theirs. */
function drawMarks({ pen, top, bottom, right, x }, marks) {
  let free = right;
  pen.textBaseline = "top";
  pen.textAlign = "left";
  for (const { at, color, word } of marks.sort((one, other) => other.at - one.at)) {
    const left = x(at);
    const wide = pen.measureText(word).width;
    pen.fillStyle = color;
    pen.fillRect(left - 1, top, 2, bottom - top);
    // From its line on to the right, else to the left.
    const start = left + wide <= free ? left : left - wide;
    if (start < LEFT || start + wide > free) continue;
    pen.fillText(word, start, 3);
    free = start - 5;
  }
}

function young(points, now) {
  return points.filter(({ at }) => now - at <= SPAN_MS);
}

/** @returns {number} the least of 1, 2, 5 times a power of ten that holds every point */
export function niceScale(points, least) {
  const most = points.reduce((so, { ms }) => Math.max(so, ms), least);
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((factor) => factor * power).find((scale) => scale >= most);
}

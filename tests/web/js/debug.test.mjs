import assert from "node:assert/strict";
import { test } from "node:test";
import { drawTrace, niceScale } from "../../../web/static/debug-plot.js";
import { REPLY_HEADS, SPAN_MS, Trace } from "../../../web/static/debug-trace.js";

const METRICS = {
  response_id: "r", ttfa_ms: 640.4, chunks_ms: [160, 320.2, 640], generated_ms: 5200, sent_ms: 5200, played_ms: 3010,
  unheard_ms: 2190, lead_min_ms: 80, lead_max_ms: 3900, underruns: 1, gap_ms: 42, continuous: true, reported: true, interrupted: true,
};

const COLORS = { ink: "ink", soft: "soft", line: "line", call: "call", response: "response", warn: "warn", font: "11px x" };

/** Records what is filled, by colour. */
class Pen {
  constructor() {
    this.rects = [];
    this.texts = [];
    this.placed = [];
    this.path = [];
  }

  fillRect(x, y, width, height) {
    this.rects.push({ color: this.fillStyle, x, y, width, height });
  }

  fillText(text, x) {
    this.texts.push(text);
    this.placed.push({ text, x });
  }

  measureText(text) {
    return { width: 6 * text.length };
  }

  moveTo(x, y) {
    this.path.push([x, y]);
  }

  lineTo(x, y) {
    this.path.push([x, y]);
  }

  clearRect() {}
  beginPath() {}
  fill() {}
}

function draw(trace, now, width = 600) {
  const pen = new Pen();
  drawTrace(pen, { width, height: 136 }, COLORS, trace, now);
  return pen;
}

test("a silent panel says so", () => {
  const trace = new Trace();
  assert.equal(trace.isEmpty(0), true);
  assert.equal(trace.summary(0), "No reply yet · buffered 0.0 s · no underruns · in 0.0 kB/s, out 0.0 kB/s");
});

test("what happened is told in words", () => {
  const trace = new Trace();
  trace.bytes({ in: 0, out: 0 }, 0);
  trace.take("chunk", { ms: 40 }, 100);
  trace.take("first", { ms: 812 }, 110);
  trace.take("chunk", { ms: 640 }, 300);
  trace.take("buffer", { id: "a", ms: 3210, gaps: 0, gapMs: 0 }, 310);
  trace.bytes({ in: 48000, out: 25000 }, 500);
  assert.equal(trace.summary(500), "TTFA 812 ms · buffered 3.2 s · no underruns · 2 chunks of 40–640 ms · in 96 kB/s, out 50 kB/s");
});

test("packets that come together are one chunk", () => {
  const trace = new Trace();
  for (let i = 0; i < 8; i += 1) trace.take("chunk", { ms: 20 }, 100 + i * 10);
  trace.take("chunk", { ms: 20 }, 300);
  assert.deepEqual(trace.chunks.map(({ at, ms }) => [at, ms]), [[100, 160], [300, 20]]);
});

test("gaps add up over the items, each of which counts from zero", () => {
  const trace = new Trace();
  trace.take("buffer", { id: "a", ms: 0, gaps: 1, gapMs: 90 }, 1000);
  trace.take("buffer", { id: "a", ms: 0, gaps: 1, gapMs: 140 }, 1050);
  trace.take("buffer", { id: null, ms: 0, gaps: 0, gapMs: 0 }, 2000);
  trace.take("buffer", { id: "b", ms: 500, gaps: 1, gapMs: 60 }, 3000);
  assert.match(trace.summary(3000), /2 underruns, 200 ms of silence/);
  assert.deepEqual(trace.gaps, [{ at: 1000, from: 910 }, { at: 1050, from: 1000 }, { at: 3000, from: 2940 }]);
});

test("what is older than the time line is forgotten, and no more is kept than a bound", () => {
  const trace = new Trace();
  for (let now = 0; now <= 100000; now += 50) trace.take("buffer", { id: "a", ms: 1, gaps: 0, gapMs: 0 }, now);
  assert.ok(trace.buffers.length <= SPAN_MS / 50 + 2);
  for (let i = 0; i < 5000; i += 1) trace.take("cut", {}, 100000);
  assert.equal(trace.cuts.length, 1200);
  assert.equal(trace.isEmpty(100000 + SPAN_MS), false);
  assert.equal(trace.isEmpty(100001 + SPAN_MS), true);
  assert.doesNotMatch(trace.summary(200000), /chunk/);
});

test("the server's figures of a reply are a row of the table, the newest on top", () => {
  const trace = new Trace();
  for (let i = 0; i < 9; i += 1) trace.take("metrics", { ...METRICS, ttfa_ms: i }, i);
  trace.take("metrics", METRICS, 10);
  assert.equal(trace.replies.length, 5);
  assert.deepEqual(trace.replies[0],
    ["640 ms", "160, 320, 640", "80–3900 ms", "5.2 s", "3.0 s", "2.2 s", "1, 42 ms", "cut off"]);
  assert.equal(trace.replies[0].length, REPLY_HEADS.length);
  assert.equal(trace.replies[1][0], "8 ms");
});

test("figures that are missing or many still make a row", () => {
  const trace = new Trace();
  trace.take("metrics", { chunks_ms: new Array(64).fill(80), continuous: false, reported: false, interrupted: false }, 0);
  const [row] = trace.replies;
  assert.equal(row[0], "? ms");
  assert.equal(row[1], "80, 80, 80, 80, 80, 80, … (64)");
  assert.equal(row.at(-1), "not continuous, estimated");
});

test("the scale is the next round number", () => {
  const scale = (...ms) => niceScale(ms.map((one) => ({ ms: one })), 100);
  assert.deepEqual([scale(), scale(100), scale(101), scale(480), scale(501), scale(3900)], [100, 100, 200, 500, 1000, 5000]);
});

test("chunks stand where they came, as high as they are long", () => {
  const trace = new Trace();
  trace.take("chunk", { ms: 250 }, 0);
  trace.take("chunk", { ms: 500 }, SPAN_MS / 2);
  const bars = draw(trace, SPAN_MS).rects.filter(({ color }) => color === "response");
  assert.equal(bars.length, 2);
  assert.ok(Math.abs(bars[1].height - 2 * bars[0].height) < 0.01);
  assert.equal(bars[0].y + bars[0].height, bars[1].y + bars[1].height);
  assert.ok(Math.abs(bars[0].x + 1 - 52) < 0.01, "at the left end");
  assert.ok(Math.abs(bars[1].x + 1 - (52 + 596) / 2) < 0.01, "in the middle");
});

test("underruns are red as long as they lasted, and never invisible", () => {
  const trace = new Trace();
  trace.take("buffer", { id: "a", ms: 0, gaps: 1, gapMs: 3000 }, 10000);
  trace.take("buffer", { id: "a", ms: 0, gaps: 2, gapMs: 3001 }, 20000);
  const red = draw(trace, 20000).rects.filter(({ color }) => color === "warn");
  assert.deepEqual(red.map(({ width }) => Math.round(width)), [54, 3]);
});

test("a gap that reaches past the left end is cut off there", () => {
  const trace = new Trace();
  trace.take("buffer", { id: "a", ms: 0, gaps: 1, gapMs: 3000 }, 1000);
  const [red] = draw(trace, 30000).rects.filter(({ color }) => color === "warn");
  assert.equal(red.x, 52);
});

test("the buffer falls to nothing where nothing was told of it", () => {
  const trace = new Trace();
  for (const at of [1000, 1050, 5000]) trace.take("buffer", { id: "a", ms: 800, gaps: 0, gapMs: 0 }, at);
  const { path } = draw(trace, 10000);
  const floor = Math.max(...path.map(([, y]) => y));
  assert.equal(path.filter(([, y]) => y === floor).length, 4, "both ends, and both sides of the pause");
});

test("words never lie on one another: where marks crowd, the newest are named", () => {
  const trace = new Trace();
  for (let i = 0; i < 6; i += 1) trace.take("first", { ms: 700 + i }, 1000 + i * 300);
  const pen = draw(trace, 2500);
  const words = pen.placed.filter(({ text }) => /^7\d\d ms$/.test(text));
  assert.deepEqual(words[0].text, "705 ms");
  assert.ok(words.length >= 1 && words.length < 6);
  for (let i = 1; i < words.length; i += 1) assert.ok(words[i].x + 36 <= words[i - 1].x);
  assert.equal(pen.rects.filter(({ color }) => color === "ink").length, 6, "each has its line");
});

test("first sounds and cuts are named where there is room", () => {
  const trace = new Trace();
  trace.take("first", { ms: 700 }, 1000);
  trace.take("cut", {}, 5000);
  for (const now of [5000, 20000]) {
    const { texts, rects } = draw(trace, now);
    assert.ok(texts.includes("700 ms") && texts.includes("cut"));
    assert.equal(rects.filter(({ color }) => color === "call").length, 1);
  }
  assert.ok(draw(trace, 5000, 320).texts.length < draw(trace, 5000, 600).texts.length, "a phone gets fewer labels");
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { JitterBuffer } from "../../../web/static/dsp/jitter.js";

const QUANTUM = 128;

/** `ms` of a constant at the wire's rate: any step in the output is then the buffer's own doing. */
function level(ms, value = 16000) {
  return new Int16Array(24 * ms).fill(value);
}

/** Pulls `ms` of audio; returns the samples and the events. */
function pull(buffer, ms) {
  const count = Math.round((ms * buffer.outRate) / 1000 / QUANTUM);
  const samples = new Float32Array(count * QUANTUM);
  const events = [];
  for (let i = 0; i < count; i += 1) {
    const block = samples.subarray(i * QUANTUM, (i + 1) * QUANTUM);
    buffer.pull(block, (event) => events.push({ ...event, at: i * QUANTUM + event.offset }));
  }
  return { samples, events };
}

function loudest(samples) {
  return samples.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
}

function steepest(samples) {
  let most = 0;
  for (let i = 1; i < samples.length; i += 1) most = Math.max(most, Math.abs(samples[i] - samples[i - 1]));
  return most;
}

/** A step of the 5 ms fade at 48 kHz for the level above, doubled for the resampler's ripple. */
const SMOOTH = (2 * 0.49) / 240;

test("an item waits for 60 ms of audio, then starts", () => {
  const buffer = new JitterBuffer(48000);
  buffer.push("a", level(40));
  assert.deepEqual(pull(buffer, 50).events, []);
  buffer.push("a", level(40));
  const { events } = pull(buffer, 20);
  assert.equal(events[0].type, "started");
  assert.equal(events[0].id, "a");
});

test("a short item starts when it is complete, and ends", () => {
  const buffer = new JitterBuffer(48000);
  buffer.push("a", level(30));
  assert.deepEqual(pull(buffer, 20).events, []);
  buffer.finish("a");
  const { events } = pull(buffer, 60);
  assert.deepEqual(events.map((event) => event.type), ["started", "ended"]);
  assert.equal(events[1].playedMs, 30);
  assert.ok(Math.abs(events[1].at - events[0].at - 1440) <= 2);
});

test("positions count what was played, at odd rates too", () => {
  for (const rate of [44100, 48000, 16000]) {
    const buffer = new JitterBuffer(rate);
    buffer.push("a", level(500));
    pull(buffer, 200);
    const { id, playedMs, bufferedMs } = buffer.position();
    assert.equal(id, "a");
    assert.ok(Math.abs(playedMs - 200) < 9, `${playedMs} ms at ${rate}`);
    assert.ok(Math.abs(playedMs + bufferedMs - 500) < 4, `${bufferedMs} ms left`);
  }
});

test("a gap is faded out and in, counted once, and does not advance the position", () => {
  const buffer = new JitterBuffer(48000);
  buffer.push("a", level(100));
  const before = pull(buffer, 160).samples;
  const stuck = buffer.position().playedMs;
  assert.ok(stuck > 95 && stuck <= 100);
  assert.equal(buffer.underruns, 0, "nothing is late yet");
  pull(buffer, 100);
  assert.equal(buffer.position().playedMs, stuck);
  buffer.push("a", level(200));
  const after = pull(buffer, 100).samples;
  assert.equal(buffer.underruns, 1);
  assert.ok(loudest(after) > 0.4);
  assert.ok(steepest(before) < SMOOTH && steepest(after) < SMOOTH);
  assert.equal(before.at(-1), 0);
});

test("a gap is as long as the silence that was played in it, with the wait for a new start", () => {
  for (const rate of [44100, 48000]) {
    const buffer = new JitterBuffer(rate);
    buffer.push("a", level(100));
    pull(buffer, 180);
    assert.deepEqual([buffer.position().gaps, buffer.position().gapMs], [0, 0], "it may be the end");
    // A new start takes 90 ms of audio after the first gap.
    buffer.push("a", level(50));
    pull(buffer, 40);
    const { gaps, gapMs } = buffer.position();
    assert.equal(gaps, 1);
    assert.ok(Math.abs(gapMs - 120) < 6, `${gapMs} ms at ${rate}`);
    buffer.push("a", level(100));
    buffer.finish("a");
    const { events } = pull(buffer, 300);
    assert.deepEqual([events[0].type, events[0].gaps, events[0].gapMs], ["ended", 1, gapMs]);
  }
});

test("silence before an item, after it and between items is no gap", () => {
  const buffer = new JitterBuffer(48000);
  pull(buffer, 100);
  buffer.push("a", level(30));
  pull(buffer, 100);
  buffer.push("a", level(70));
  pull(buffer, 300);
  buffer.finish("a");
  assert.deepEqual(pull(buffer, 200).events.map(({ type, gapMs }) => [type, gapMs]), [["ended", 0]]);
  buffer.push("b", level(100));
  pull(buffer, 50);
  assert.deepEqual([buffer.position().id, buffer.position().gaps, buffer.position().gapMs], ["b", 0, 0]);
});

test("the gaps of an item that is cut are told with it, and those of the next begin at zero", () => {
  const buffer = new JitterBuffer(48000);
  buffer.push("a", level(100));
  pull(buffer, 200);
  buffer.push("a", level(500));
  pull(buffer, 100);
  const [cut] = buffer.clear();
  assert.equal(cut.gaps, 1);
  assert.ok(Math.abs(cut.gapMs - 100) < 6, `${cut.gapMs} ms`);
  buffer.push("b", level(100));
  pull(buffer, 50);
  assert.deepEqual([buffer.position().gaps, buffer.position().underruns], [0, 1]);
});

test("a gap makes later starts wait longer, a clean item takes that back", () => {
  const buffer = new JitterBuffer(48000);
  buffer.push("a", level(100));
  pull(buffer, 150);
  buffer.push("a", level(80));
  assert.equal(loudest(pull(buffer, 20).samples), 0);
  buffer.push("a", level(20));
  buffer.finish("a");
  assert.ok(loudest(pull(buffer, 150).samples) > 0.4);
  buffer.push("b", level(100));
  buffer.finish("b");
  pull(buffer, 150);
  buffer.push("c", level(61));
  assert.equal(pull(buffer, 10).events[0]?.type, "started");
});

test("waiting for the end of an item is no gap", () => {
  const buffer = new JitterBuffer(48000);
  buffer.push("a", level(100));
  pull(buffer, 200);
  buffer.finish("a");
  const { events } = pull(buffer, 20);
  assert.equal(events.at(-1).type, "ended");
  assert.equal(buffer.underruns, 0);
});

test("a cut is silent within 15 ms, without a click, and says what was heard", () => {
  const buffer = new JitterBuffer(48000);
  buffer.push("a", level(1000));
  buffer.push("b", level(500));
  const before = pull(buffer, 300).samples;
  const cut = buffer.clear();
  const after = pull(buffer, 100).samples;
  assert.deepEqual(cut.map((item) => item.id), ["a", "b"]);
  assert.ok(Math.abs(cut[0].playedMs - 300) < 3);
  assert.equal(cut[0].receivedMs, 1000);
  assert.equal(cut[1].playedMs, 0);
  assert.ok(loudest(after) > 0.3, "it fades rather than stops");
  assert.equal(loudest(after.subarray(0.015 * 48000)), 0);
  assert.ok(steepest(Float32Array.of(before.at(-1), ...after)) < SMOOTH);
  assert.equal(buffer.position().bufferedMs, 0);
});

test("a cut while nothing sounds is silent", () => {
  const buffer = new JitterBuffer(48000);
  buffer.push("a", level(20));
  assert.deepEqual(buffer.clear(), [{ id: "a", playedMs: 0, receivedMs: 20, gaps: 0, gapMs: 0 }]);
  assert.equal(loudest(pull(buffer, 50).samples), 0);
  assert.deepEqual(buffer.clear(), []);
});

test("after a cut the next item plays from its first sample", () => {
  const buffer = new JitterBuffer(48000);
  buffer.push("a", level(1000));
  pull(buffer, 100);
  buffer.clear();
  buffer.push("b", level(100, -16000));
  buffer.finish("b");
  const { samples, events } = pull(buffer, 150);
  assert.deepEqual(events.map(({ type, id }) => [type, id]), [["started", "b"], ["ended", "b"]]);
  assert.equal(events[1].playedMs, 100);
  assert.ok(Math.min(...samples) < -0.45);
});

test("items follow one another without a pause", () => {
  const buffer = new JitterBuffer(48000);
  for (const id of ["a", "b"]) {
    buffer.push(id, level(100));
    buffer.finish(id);
  }
  const { events } = pull(buffer, 300);
  assert.deepEqual(events.map(({ type, id }) => type + id), ["starteda", "endeda", "startedb", "endedb"]);
  assert.equal(events[1].at, events[2].at);
});

test("ducking lowers the loudness smoothly, and back", () => {
  const buffer = new JitterBuffer(48000);
  buffer.push("a", level(1000));
  pull(buffer, 100);
  buffer.duck(true);
  const low = pull(buffer, 100).samples;
  assert.ok(Math.abs(low.at(-1)) < 0.12 && low.at(-1) > 0);
  buffer.duck(false);
  const high = pull(buffer, 100).samples;
  assert.ok(high.at(-1) > 0.45);
  assert.ok(steepest(low) < SMOOTH && steepest(high) < SMOOTH);
});

test("audio past ten minutes is dropped and counted", () => {
  const buffer = new JitterBuffer(48000);
  const minute = level(60000);
  for (let i = 0; i < 10; i += 1) buffer.push("a", minute);
  assert.equal(buffer.dropped, 0);
  buffer.push("a", level(20));
  assert.equal(buffer.dropped, 480);
});

test("empty audio, unknown items and late audio change nothing", () => {
  const buffer = new JitterBuffer(48000);
  buffer.push("a", new Int16Array(0));
  buffer.finish("nobody");
  assert.equal(buffer.current, undefined);
  buffer.push("a", level(10));
  buffer.finish("a");
  buffer.push("a", level(500));
  assert.equal(pull(buffer, 100).events.at(-1).playedMs, 10);
});

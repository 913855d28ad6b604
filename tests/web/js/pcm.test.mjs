import assert from "node:assert/strict";
import { test } from "node:test";
import { Framer } from "../../../web/static/dsp/framer.js";
import * as pcm from "../../../web/static/dsp/pcm.js";
import { FloatRing } from "../../../web/static/dsp/ring.js";

test("base64 is what every other program makes of the same bytes", () => {
  for (const count of [0, 1, 2, 480, 5000, 40001]) {
    const samples = Int16Array.from({ length: count }, (_, i) => (i * 7919) % 65536 - 32768);
    const text = Buffer.from(samples.buffer).toString("base64");
    assert.equal(pcm.encodeBase64(samples), text);
    assert.deepEqual(pcm.decodeBase64(text), samples);
  }
});

test("a view into a larger buffer is encoded alone", () => {
  const samples = Int16Array.of(1, 2, 3, 4).subarray(1, 3);
  assert.deepEqual(pcm.decodeBase64(pcm.encodeBase64(samples)), Int16Array.of(2, 3));
});

test("an odd last byte is left out", () => {
  assert.deepEqual(pcm.decodeBase64(Buffer.from([1, 0, 9]).toString("base64")), Int16Array.of(1));
});

test("text that is no base64 throws", () => {
  assert.throws(() => pcm.decodeBase64("**"));
});

test("floats are clipped, not wrapped", () => {
  assert.deepEqual(pcm.floatToInt16(Float32Array.of(0, 1, -1, 3, -3)), Int16Array.of(0, 32767, -32767, 32767, -32767));
});

test("loudness runs from silence to full scale", () => {
  assert.equal(pcm.loudness(0), 0);
  assert.equal(pcm.loudness(1), 1);
  assert.equal(pcm.loudness(1e-9), 0);
  assert.ok(Math.abs(pcm.loudness(10 ** -2.7) - 0.5) < 1e-9, "27 dB below full scale is half way");
});

test("a ring gives back what was written, in order, over its edge", () => {
  const ring = new FloatRing(10);
  const out = new Float32Array(10);
  let next = 0;
  let expected = 0;
  for (let round = 0; round < 50; round += 1) {
    const count = 1 + (round * 3) % 7;
    ring.write(Float32Array.from({ length: count }, () => (next += 1)));
    const taken = ring.read(out, count);
    assert.equal(taken, count);
    for (let i = 0; i < taken; i += 1) assert.equal(out[i], (expected += 1));
  }
  assert.equal(ring.read(out), 0);
});

test("a full ring refuses and keeps what it has", () => {
  const ring = new FloatRing(4);
  ring.write(Float32Array.of(1, 2, 3));
  assert.throws(() => ring.write(Float32Array.of(4, 5)), RangeError);
  assert.equal(ring.length, 3);
});

test("the microphone's stream becomes 20 ms frames of 24 kHz", () => {
  for (const rate of [16000, 44100, 48000]) {
    const framer = new Framer(rate);
    const frames = [];
    for (let sent = 0; sent < rate; sent += 128) {
      framer.push(new Float32Array(128).fill(0.5), (samples, level) => frames.push({ samples, level }));
    }
    assert.ok(frames.length === 49 || frames.length === 50, `${frames.length} frames at ${rate}`);
    assert.ok(frames.every(({ samples }) => samples.length === 480));
    assert.ok(frames.slice(1).every(({ samples }) => samples.every((value) => Math.abs(value - 16384) < 20)));
    assert.ok(Math.abs(frames[10].level - pcm.loudness(0.25)) < 1e-3);
  }
});

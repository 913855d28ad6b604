import assert from "node:assert/strict";
import { test } from "node:test";
import { Resampler } from "../../../web/static/dsp/resampler.js";

function sine(rate, frequency, count) {
  return Float32Array.from({ length: count }, (_, i) => Math.sin((2 * Math.PI * frequency * i) / rate));
}

/** The whole output for an input given in blocks of `size`. */
function convert(inRate, outRate, input, size = input.length) {
  const resampler = new Resampler(inRate, outRate);
  const parts = [];
  const take = (block) => {
    const out = new Float32Array(resampler.maxOutput(block.length));
    parts.push(...out.subarray(0, resampler.process(block, out)));
  };
  for (let at = 0; at < input.length; at += size) take(input.subarray(at, at + size));
  const out = new Float32Array(resampler.maxOutput(resampler.delay));
  parts.push(...out.subarray(0, resampler.flush(out)));
  return Float32Array.from(parts);
}

function rms(samples) {
  return Math.sqrt(samples.reduce((sum, value) => sum + value * value, 0) / samples.length);
}

const RATES = [8000, 16000, 22050, 44100, 48000, 96000, 192000];

for (const rate of RATES) {
  for (const [from, to] of [[rate, 24000], [24000, rate]]) {
    test(`${from} to ${to} Hz keeps a 1 kHz tone in time, level and shape`, () => {
      const count = from / 5;
      const output = convert(from, to, sine(from, 1000, count));
      assert.ok(Math.abs(output.length - to / 5) <= 1, `${output.length} samples`);
      const ideal = sine(to, 1000, output.length);
      const edge = Math.ceil(to / 100);
      const error = output.map((value, i) => value - ideal[i]).subarray(edge, -edge);
      assert.ok(rms(error) < 2e-4, `error ${rms(error)}`);
    });
  }
}

test("blocks of any size give the same samples", () => {
  const input = sine(44100, 440, 5000).map((value, i) => value * Math.sin(i * i));
  const whole = convert(44100, 24000, input);
  for (const size of [1, 7, 128, 1024, 1025, 4999]) {
    assert.deepEqual(convert(44100, 24000, input, size), whole);
  }
});

test("what lies above the lower Nyquist frequency is stopped by 75 dB", () => {
  for (const frequency of [12500, 15000, 20000]) {
    const output = convert(48000, 24000, sine(48000, frequency, 9600));
    const level = 20 * Math.log10(rms(output.subarray(200, -200)) / Math.SQRT1_2);
    assert.ok(level < -75, `${frequency} Hz: ${level} dB`);
  }
});

test("going up adds no image above the old Nyquist frequency", () => {
  const output = convert(24000, 48000, sine(24000, 9000, 4800));
  const inner = output.subarray(400, -400);
  const image = sine(48000, 15000, inner.length);
  const match = inner.reduce((sum, value, i) => sum + value * image[i], 0) / inner.length;
  assert.ok(Math.abs(match) < 2e-4, `image ${match}`);
});

test("speech frequencies up to 9.5 kHz pass within 0.1 dB", () => {
  for (const frequency of [100, 3000, 8000, 9500]) {
    const output = convert(48000, 24000, sine(48000, frequency, 9600));
    const level = 20 * Math.log10(rms(output.subarray(400, -400)) / Math.SQRT1_2);
    assert.ok(Math.abs(level) < 0.1, `${frequency} Hz: ${level} dB`);
  }
});

test("equal rates hand samples through unchanged", () => {
  const input = sine(24000, 333, 1000);
  assert.deepEqual(convert(24000, 24000, input), input);
});

test("after a reset nothing of the former stream remains", () => {
  const resampler = new Resampler(24000, 48000);
  const out = new Float32Array(resampler.maxOutput(500));
  resampler.process(new Float32Array(500).fill(1), out);
  resampler.reset();
  const count = resampler.process(new Float32Array(500), out);
  assert.ok(count > 0);
  assert.ok(out.subarray(0, count).every((value) => value === 0));
});

test("rates without a common clock are refused", () => {
  for (const pair of [[0, 24000], [24000, 44100.5], [-1, 1], [24000, 44101], [Number.NaN, 1]]) {
    assert.throws(() => new Resampler(...pair), RangeError);
  }
});

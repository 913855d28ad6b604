/**
 * A streaming sample-rate converter: windowed sinc, polyphase, exact ratio.
 *
 * Output sample k lies at input time k * inRate / outRate, so the stream is neither shifted nor
 * stretched; it only comes `delay` input samples late, and `flush` hands out what is left.
 */

/** Zero crossings of the sinc on each side: stops from Nyquist up, 1.3 ms of delay at 24 kHz. */
const ZERO_CROSSINGS = 32;

/** Kaiser shape for about 80 dB of stop-band attenuation. */
const KAISER_BETA = 8;

/** Part of the lower Nyquist frequency that passes; the rest is the transition band. */
const PASS_BAND = 0.92;

/** 44.1 kHz to 24 kHz needs 80 phases; real devices stay far below this. */
const MAX_PHASES = 2048;

/** Input samples taken in one step; bounds the history buffer. */
const BLOCK = 1024;

function gcd(a, b) {
  return b === 0 ? a : gcd(b, a % b);
}

/** Modified Bessel function of the first kind, order zero, by its power series. */
function besselI0(x) {
  let sum = 1;
  let term = 1;
  for (let k = 1; term > sum * 1e-12; k += 1) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

function windowedSinc(distance, half, cutoff) {
  const position = distance / half;
  if (Math.abs(position) >= 1) return 0;
  const angle = Math.PI * cutoff * distance;
  const sinc = angle === 0 ? 1 : Math.sin(angle) / angle;
  return sinc * besselI0(KAISER_BETA * Math.sqrt(1 - position * position));
}

/** One row of `taps` coefficients for each phase, each row with a gain of exactly one at 0 Hz. */
function designPhases(phases, half, cutoff) {
  const taps = 2 * half;
  const table = new Float32Array(phases * taps);
  for (let phase = 0; phase < phases; phase += 1) {
    const row = table.subarray(phase * taps, (phase + 1) * taps);
    let sum = 0;
    for (let tap = 0; tap < taps; tap += 1) {
      const value = windowedSinc(tap - half + 1 - phase / phases, half, cutoff);
      row[tap] = value;
      sum += value;
    }
    for (let tap = 0; tap < taps; tap += 1) row[tap] /= sum;
  }
  return table;
}

export class Resampler {
  /**
   * @param {number} inRate samples per second in, a whole number
   * @param {number} outRate samples per second out, a whole number
   * @throws {RangeError} for rates that are not positive whole numbers, or share too few factors
   */
  constructor(inRate, outRate) {
    if (!Number.isInteger(inRate) || !Number.isInteger(outRate) || inRate < 1 || outRate < 1) {
      throw new RangeError(`sample rates are positive whole numbers, got ${inRate} and ${outRate}`);
    }
    const common = gcd(inRate, outRate);
    this.phases = outRate / common;
    this.step = inRate / common;
    if (this.phases > MAX_PHASES) {
      throw new RangeError(`no common clock for ${inRate} Hz and ${outRate} Hz`);
    }
    const narrowing = Math.max(1, inRate / outRate);
    this.half = this.step === this.phases ? 1 : Math.ceil(ZERO_CROSSINGS * narrowing);
    this.taps = 2 * this.half;
    const cutoff = this.step === this.phases ? 1 : PASS_BAND / narrowing;
    this.table = designPhases(this.phases, this.half, cutoff);
    this.buffer = new Float32Array(this.taps + BLOCK);
    this.reset();
  }

  /** Input samples that an output sample waits for. */
  get delay() {
    return this.half;
  }

  /** Forgets the stream; the next sample is the first of a new one. */
  reset() {
    this.buffer.fill(0);
    // A first output sample sees silence before the stream.
    this.filled = this.half - 1;
    this.phase = 0;
    this.start = 0;
  }

  /** The most samples that `count` input samples can give. */
  maxOutput(count) {
    return Math.ceil(((count + 1) * this.phases) / this.step) + 1;
  }

  /**
   * Converts the whole input and writes to the start of `output`.
   * @param {Float32Array} input
   * @param {Float32Array} output at least maxOutput(input.length) long
   * @returns {number} samples written
   */
  process(input, output) {
    let written = 0;
    for (let at = 0; at < input.length; at += BLOCK) {
      const part = input.subarray(at, Math.min(at + BLOCK, input.length));
      this.buffer.set(part, this.filled);
      this.filled += part.length;
      written = this.#drain(output, written);
    }
    return written;
  }

  /** Writes the samples still owed at the end of the stream; resets. */
  flush(output) {
    const written = this.process(new Float32Array(this.half), output);
    this.reset();
    return written;
  }

  #drain(output, written) {
    const { buffer, table, taps, phases, step } = this;
    let { start, phase } = this;
    while (start + taps <= this.filled) {
      const row = phase * taps;
      let sum = 0;
      for (let tap = 0; tap < taps; tap += 1) sum += buffer[start + tap] * table[row + tap];
      output[written] = sum;
      written += 1;
      phase += step;
      start += Math.floor(phase / phases);
      phase %= phases;
    }
    // A large step may point past what has arrived; the remainder stays in `start`.
    const gone = Math.min(start, this.filled);
    buffer.copyWithin(0, gone, this.filled);
    this.filled -= gone;
    this.start = start - gone;
    this.phase = phase;
    return written;
  }
}

import { floatToInt16, loudness, meanSquare } from "./pcm.js";
import { Resampler } from "./resampler.js";
import { FloatRing } from "./ring.js";

/** The wire's only PCM rate. */
export const WIRE_RATE = 24000;

/** 20 ms: small enough for a quick end of turn, large enough for little overhead. */
export const FRAME_SAMPLES = 480;

/** Cuts a microphone's stream of any rate into 20 ms frames of 24 kHz PCM16. */
export class Framer {
  /** @param {number} inRate the stream's rate, samples per second */
  constructor(inRate) {
    this.resampler = new Resampler(inRate, WIRE_RATE);
    this.ring = new FloatRing(FRAME_SAMPLES * 8);
    this.frame = new Float32Array(FRAME_SAMPLES);
    this.scratch = new Float32Array(0);
  }

  /**
   * Takes one block and calls `emit(samples, level)` for every frame it completes:
   * an Int16Array of FRAME_SAMPLES and its loudness in 0..1.
   */
  push(block, emit) {
    const need = this.resampler.maxOutput(block.length);
    if (this.scratch.length < need) this.scratch = new Float32Array(need);
    const count = this.resampler.process(block, this.scratch);
    for (let at = 0; at < count; at += FRAME_SAMPLES) {
      const end = Math.min(count, at + FRAME_SAMPLES);
      this.ring.write(this.scratch.subarray(at, end));
      while (this.ring.length >= FRAME_SAMPLES) this.#emit(emit);
    }
  }

  #emit(emit) {
    this.ring.read(this.frame);
    emit(floatToInt16(this.frame), loudness(meanSquare(this.frame)));
  }
}

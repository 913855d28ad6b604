import { int16ToFloat } from "./pcm.js";
import { Resampler } from "./resampler.js";
import { FloatRing } from "./ring.js";
import { WIRE_RATE } from "./framer.js";

/** Audio that must be there before an item starts, unless it is complete. */
const START_MS = 60;

/** What each underrun adds to that, and the most it comes to: late networks get more slack. */
const START_STEP_MS = 30;
const START_MAX_MS = 240;

/** Length of the fade at a cut: silent well inside 15 ms, and no click. */
const CUT_FADE_MS = 10;

/** Fade around a gap, out and in again. */
const GAP_FADE_MS = 5;

/** Loudness of the reply while the server decides whether a sound was an interruption. */
const DUCK_GAIN = 0.2;

/** Ten minutes. A server that paces itself by playback reports stays at a few seconds. */
const MAX_QUEUED_SAMPLES = WIRE_RATE * 600;

/** Input samples resampled in one go: 10 ms. */
const BLOCK = 240;

/** One item's audio: compact chunks at the wire's rate, not yet resampled. */
class Item {
  constructor(id) {
    this.id = id;
    this.chunks = [];
    this.offset = 0;
    this.queued = 0;
    this.finished = false;
    this.flushed = false;
    this.started = false;
    this.starved = false;
    this.gaps = 0;
    this.dryFrames = 0;
    this.silentFrames = 0;
    this.playedFrames = 0;
    this.receivedFrames = 0;
  }

  push(samples) {
    this.chunks.push(samples);
    this.queued += samples.length;
    this.receivedFrames += samples.length;
  }

  /** Takes up to BLOCK samples as floats; returns how many. */
  take(floats) {
    const chunk = this.chunks[0];
    if (!chunk) return 0;
    const part = chunk.subarray(this.offset, this.offset + BLOCK);
    int16ToFloat(part, floats);
    this.offset += part.length;
    this.queued -= part.length;
    if (this.offset >= chunk.length) {
      this.chunks.shift();
      this.offset = 0;
    }
    return part.length;
  }
}

/**
 * Turns bursts of 24 kHz PCM16 into a steady stream at the device's rate.
 *
 * Items play one after the other. Each starts when enough of it is there; a gap inside an item is
 * faded out and in and counted, and so is the silence that was played meanwhile; `clear` fades what
 * sounds and drops the rest. Positions count an item's own audio, so a gap does not advance them.
 */
export class JitterBuffer {
  /** @param {number} outRate the device's rate, samples per second */
  constructor(outRate) {
    this.outRate = outRate;
    this.resampler = new Resampler(WIRE_RATE, outRate);
    this.input = new Float32Array(Math.max(BLOCK, this.resampler.delay));
    this.staged = new Float32Array(this.resampler.maxOutput(this.input.length));
    this.gapFrames = Math.round((outRate * GAP_FADE_MS) / 1000);
    this.cutFrames = Math.round((outRate * CUT_FADE_MS) / 1000);
    this.ring = new FloatRing(this.staged.length * 4 + this.cutFrames + 4096);
    this.tail = new FloatRing(this.cutFrames);
    this.items = [];
    this.playing = false;
    this.gain = 0;
    this.duckGain = 1;
    this.ducked = false;
    this.queuedSamples = 0;
    this.underruns = 0;
    this.dropped = 0;
    this.startMs = START_MS;
  }

  /** The item that sounds or waits to sound, or undefined. */
  get current() {
    return this.items[0];
  }

  /** Adds audio to an item, after whatever is queued. Audio past the bound is dropped and counted. */
  push(id, samples) {
    let item = this.items.find((known) => known.id === id);
    if (!item && samples.length > 0) {
      item = new Item(id);
      this.items.push(item);
    }
    if (!item || item.finished || samples.length === 0) return;
    if (this.queuedSamples + samples.length > MAX_QUEUED_SAMPLES) {
      this.dropped += samples.length;
      return;
    }
    if (item.starved) this.#countGap(item);
    item.push(samples);
    this.queuedSamples += samples.length;
  }

  /** Says that an item gets no more audio. */
  finish(id) {
    const item = this.items.find((known) => known.id === id);
    if (item) item.finished = true;
  }

  /** Lowers or restores the loudness, over a few milliseconds. */
  duck(on) {
    this.ducked = on;
  }

  /**
   * Fades out what sounds within CUT_FADE_MS and drops the rest.
   * @returns {{id: string, playedMs: number, receivedMs: number, gaps: number, gapMs: number}[]}
   *   what was heard of each item
   */
  clear() {
    const cut = this.items.map((item) => ({
      ...this.#heard(item),
      receivedMs: (item.receivedFrames * 1000) / WIRE_RATE,
    }));
    if (this.playing) this.#fadeTail();
    this.#dropAll();
    return cut;
  }

  /**
   * Where playback stands: the current item, ms of it played, its gaps and the ms of silence in
   * them; ms of audio waiting; the gaps of all items so far.
   */
  position() {
    const staged = (this.ring.length * 1000) / this.outRate;
    const queued = (this.queuedSamples * 1000) / WIRE_RATE;
    return {
      ...(this.current ? this.#heard(this.current) : { id: null, playedMs: 0, gaps: 0, gapMs: 0 }),
      bufferedMs: staged + queued,
      underruns: this.underruns,
    };
  }

  /**
   * Fills `out` with the next samples, silence where there are none.
   * Calls `notify({type, id, playedMs, gaps, gapMs, offset})` with type "started" or "ended";
   * `offset` is the sample in `out` where it happened.
   */
  pull(out, notify) {
    out.fill(0);
    let at = 0;
    while (at < out.length && this.current && this.#ready()) {
      at = this.#play(out, at, notify);
    }
    if (at < out.length && this.current) this.#countSilence(this.current, out.length - at);
    this.#mixTail(out);
  }

  #heard(item) {
    const most = (item.receivedFrames * 1000) / WIRE_RATE;
    return {
      id: item.id,
      playedMs: Math.min(most, (item.playedFrames * 1000) / this.outRate),
      gaps: item.gaps,
      gapMs: (item.silentFrames * 1000) / this.outRate,
    };
  }

  /** Silence inside an item is a gap once more audio of it has come; until then it may be its end. */
  #countSilence(item, frames) {
    if (item.starved) item.dryFrames += frames;
    else if (item.started) item.silentFrames += frames;
  }

  #ready() {
    if (this.playing) return true;
    const item = this.current;
    const waitingMs = (item.queued * 1000) / WIRE_RATE + (this.ring.length * 1000) / this.outRate;
    this.playing = item.finished || waitingMs >= this.startMs;
    return this.playing;
  }

  /** Plays into out[at..]; returns where it stopped: the end, or the end of an item or of supply. */
  #play(out, at, notify) {
    const item = this.current;
    const wanted = out.length - at;
    this.#stage(item, wanted + this.gapFrames);
    const count = Math.min(wanted, this.ring.length);
    if (count > 0 && !item.started) {
      item.started = true;
      notify({ type: "started", ...this.#heard(item), offset: at });
    }
    const rest = out.subarray(at, at + count);
    const before = this.ring.length;
    this.ring.read(rest);
    this.#shape(rest, item.flushed ? Infinity : before);
    item.playedFrames += count;
    if (this.ring.length === 0) this.#runDry(item, at + count, notify);
    return at + count;
  }

  /** Resamples until `frames` are staged or the item has no more. */
  #stage(item, frames) {
    while (this.ring.length < frames) {
      const count = item.take(this.input);
      if (count > 0) {
        this.queuedSamples -= count;
        const made = this.resampler.process(this.input.subarray(0, count), this.staged);
        this.ring.write(this.staged, made);
      } else if (item.finished && !item.flushed) {
        item.flushed = true;
        this.ring.write(this.staged, this.resampler.flush(this.staged));
      } else {
        return;
      }
    }
  }

  /** Applies the gain: towards zero when `left` samples are all there is, else towards one. */
  #shape(block, left) {
    const step = 1 / this.gapFrames;
    const duckGoal = this.ducked ? DUCK_GAIN : 1;
    for (let i = 0; i < block.length; i += 1) {
      const remaining = left - i - 1;
      const goal = remaining >= this.gapFrames ? 1 : remaining / this.gapFrames;
      this.gain = Math.min(goal, this.gain + step);
      const turn = Math.max(-step, Math.min(step, duckGoal - this.duckGain));
      this.duckGain += turn;
      block[i] *= this.gain * this.duckGain;
    }
  }

  #runDry(item, offset, notify) {
    if (item.flushed) {
      this.items.shift();
      // A clean item earns back some of the slack that gaps have cost.
      if (item.gaps === 0) this.startMs = Math.max(START_MS, this.startMs - START_STEP_MS);
      notify({ type: "ended", ...this.#heard(item), offset });
    } else {
      item.starved = true;
    }
    this.playing = false;
    this.gain = 0;
  }

  /** Only audio that comes too late is a gap; an item that merely waits for its end has none. */
  #countGap(item) {
    item.starved = false;
    item.gaps += 1;
    item.silentFrames += item.dryFrames;
    item.dryFrames = 0;
    this.underruns += 1;
    this.startMs = Math.min(START_MAX_MS, this.startMs + START_STEP_MS);
  }

  #fadeTail() {
    const item = this.current;
    if (!item) return;
    this.#stage(item, this.cutFrames);
    const fade = new Float32Array(this.cutFrames);
    const count = this.ring.read(fade);
    for (let i = 0; i < count; i += 1) {
      const shape = 0.5 + 0.5 * Math.cos((Math.PI * (i + 1)) / count);
      fade[i] *= shape * this.gain * this.duckGain;
    }
    this.tail.clear();
    this.tail.write(fade, count);
  }

  #dropAll() {
    this.items = [];
    this.queuedSamples = 0;
    this.ring.clear();
    this.resampler.reset();
    this.playing = false;
    this.ducked = false;
    this.gain = 0;
  }

  #mixTail(out) {
    if (this.tail.length === 0) return;
    const fade = new Float32Array(out.length);
    const count = this.tail.read(fade);
    for (let i = 0; i < count; i += 1) out[i] += fade[i];
  }
}

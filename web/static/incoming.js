/**
 * What comes from the server, in its order: events as they are, and audio as
 * response.output_audio.delta events with samples, whichever way it travelled.
 *
 * Opus is decoded elsewhere and comes back later. Events that came after it wait for it, so that
 * no item ends before its audio. A decoder that does not answer within STALL_MS has failed.
 */
import { OPUS, Parts, readFrame, samplesOf } from "./binary.js";
import { decodeBase64 } from "./dsp/pcm.js";

/** Longest wait for a decoder. */
const STALL_MS = 1000;

/** Events that wait for one; past it the decoder counts as failed too. */
const MAX_HELD = 2000;

/** Decoders that may fail on a socket before Opus is no longer tried. */
const MAX_FAILURES = 3;

export class Incoming {
  /**
   * @param {object} parts
   * @param {(event: object) => void} parts.onEvent
   * @param {() => void} parts.onTrouble Opus could not be decoded
   * @param {(handlers: object) => object} parts.makeDecoder as OpusDecoder
   * @param {(call: () => void, ms: number) => unknown} parts.later starts a timer
   */
  constructor({ onEvent, onTrouble, makeDecoder, later }) {
    this.onEvent = onEvent;
    this.onTrouble = onTrouble;
    this.makeDecoder = makeDecoder;
    this.later = later;
    this.parts = new Parts();
    this.decoder = null;
    this.packets = [];
    this.asked = 0;
    this.answered = 0;
    this.held = [];
    this.failures = 0;
    this.watching = false;
    this.closed = false;
  }

  /** Takes a message of the socket; one that is no event and no audio is left out. */
  take(data) {
    if (typeof data === "string") this.#event(parse(data));
    else if (data instanceof ArrayBuffer) this.#frame(readFrame(data));
  }

  /** Nothing comes out any more. */
  close() {
    this.closed = true;
    this.onEvent = () => {};
    this.held = [];
    this.decoder?.close();
    this.decoder = null;
  }

  #event(event) {
    if (!event) return;
    if (event.type === "antiphon.output_audio.started") this.parts.begin(event);
    this.#inOrder(event);
  }

  #frame(frame) {
    const part = frame && this.parts.of(frame);
    if (!part) return;
    if (frame.kind === OPUS) this.#decode(frame, part);
    else if (frame.payload.length > 1) this.#inOrder(delta(part, samplesOf(frame.payload)));
  }

  #inOrder(event) {
    if (this.answered >= this.asked) {
      this.onEvent(event);
      return;
    }
    this.held.push({ event, after: this.asked });
    if (this.held.length > MAX_HELD) this.#failed();
  }

  #decode(frame, part) {
    if (frame.payload.length === 0) {
      if (frame.last) this.decoder?.finish(this.asked);
      return;
    }
    if (this.failures >= MAX_FAILURES) return;
    const decoder = (this.decoder ??= this.#makeDecoder());
    const before = this.packets.at(-1);
    // A part that was cut has no last frame.
    if (before && before.part !== part && !before.last) decoder.finish(this.asked);
    this.asked += 1;
    this.packets.push({ index: this.asked, part, last: frame.last });
    this.#watch();
    decoder.decode(frame.payload, this.asked);
    if (frame.last) decoder.finish(this.asked);
  }

  #makeDecoder() {
    const decoder = this.makeDecoder({
      onAudio: (index, samples, isEnd) => this.#decoded(index, samples, isEnd),
      onError: () => {
        if (this.decoder === decoder) this.#failed();
      },
    });
    return decoder;
  }

  #decoded(index, samples, isEnd) {
    // The newest packet stays, to tell whose the rest is.
    while (this.packets.length > 1 && this.packets[0].index < index) this.packets.shift();
    const [{ part, last }] = this.packets;
    if (samples.length > 0) this.onEvent(delta(part, samples));
    // After a last packet comes its end.
    this.answered = Math.max(this.answered, last && !isEnd ? index - 1 : index);
    while (this.held.length > 0 && this.held[0].after <= this.answered) {
      this.onEvent(this.held.shift().event);
    }
  }

  #watch() {
    if (this.watching) return;
    this.watching = true;
    const { asked } = this;
    this.later(() => {
      this.watching = false;
      if (this.closed) return;
      if (this.answered < asked) this.#failed();
      else if (this.answered < this.asked) this.#watch();
    }, STALL_MS);
  }

  /** What the decoder still had is lost, what waited for it goes on. */
  #failed() {
    this.failures += 1;
    this.decoder?.close();
    this.decoder = null;
    this.packets = [];
    this.answered = this.asked;
    const held = this.held.splice(0);
    if (this.failures === 1) this.onTrouble();
    for (const { event } of held) this.onEvent(event);
  }
}

/** The event that audio of a part is handed on as. */
function delta(part, samples) {
  return { type: "response.output_audio.delta", ...part, samples, ms: samples.length / 24 };
}

/** @returns {object|null} the event, or null for a text that is none */
export function parse(text) {
  if (typeof text !== "string") return null;
  try {
    const event = JSON.parse(text);
    if (event.type === "response.output_audio.delta") {
      event.samples = decodeBase64(event.delta);
      event.ms = event.samples.length / 24;
      delete event.delta;
    }
    return event;
  } catch {
    return null;
  }
}

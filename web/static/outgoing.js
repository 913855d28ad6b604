/**
 * What goes to the server: events as JSON, the microphone's audio as JSON, PCM16 or Opus.
 *
 * Events about the input's audio, and all that follow them, wait for the encoder: a commit must not
 * overtake what it commits. An encoder that does not answer within STALL_MS has failed.
 */
import { OPUS, PCM16, bytesOf, writeFrame } from "./binary.js";
import { encodeBase64 } from "./dsp/pcm.js";

/** Longest wait for the encoder. */
const STALL_MS = 1000;

export class Outgoing {
  /**
   * @param {object} parts
   * @param {(data: string|Uint8Array) => void} parts.send puts a message on the socket
   * @param {() => void} parts.onTrouble Opus could not be encoded
   * @param {(handlers: object) => object} parts.makeEncoder as OpusEncoder
   * @param {(call: () => void, ms: number) => unknown} parts.later starts a timer
   */
  constructor({ send, onTrouble, makeEncoder, later }) {
    this.send = send;
    this.onTrouble = onTrouble;
    this.makeEncoder = makeEncoder;
    this.later = later;
    this.encoder = null;
    this.waiting = null;
    this.format = null;
  }

  /** Sets how audio goes out: "pcm16", "opus", or null for base64 in JSON. */
  use(format) {
    if (format === this.format) return;
    this.#dropEncoder();
    this.format = format;
    if (format !== "opus") return;
    this.encoder = this.makeEncoder({
      onPacket: (packet) => this.send(writeFrame(OPUS, packet)),
      onError: () => this.#failed(),
    });
  }

  event(event) {
    const text = JSON.stringify(event);
    if (this.waiting) this.waiting.push(text);
    else if (event.type.startsWith("input_audio_buffer.") && this.encoder?.isBusy) this.#wait(text);
    else this.send(text);
  }

  /** Takes 24 kHz PCM16. */
  audio(samples) {
    if (this.format === "opus") this.encoder.encode(samples);
    else if (this.format === "pcm16") this.send(writeFrame(PCM16, bytesOf(samples)));
    // Base64 needs no escaping.
    else this.send(`{"type":"input_audio_buffer.append","audio":"${encodeBase64(samples)}"}`);
  }

  close() {
    this.send = () => {};
    this.#dropEncoder();
  }

  async #wait(text) {
    const waiting = [text];
    this.waiting = waiting;
    this.later(() => {
      if (this.waiting === waiting) this.#failed();
    }, STALL_MS);
    await this.encoder.flush();
    if (this.waiting === waiting) this.#goOn();
  }

  #goOn() {
    const waiting = this.waiting ?? [];
    this.waiting = null;
    for (const text of waiting) this.send(text);
  }

  #dropEncoder() {
    this.encoder?.close();
    this.encoder = null;
    this.#goOn();
  }

  #failed() {
    this.use("pcm16");
    this.onTrouble();
  }
}

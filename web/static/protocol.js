/**
 * The realtime socket: opens it, sends client events and audio, hands on server events.
 */
import { Incoming } from "./incoming.js";
import { OpusDecoder, OpusEncoder } from "./opus.js";
import { Outgoing } from "./outgoing.js";

/** Bytes the socket may hold back; audio past it is dropped, since late speech is of no use. */
const MAX_BACKLOG = 1 << 20;

/** Characters that a subprotocol may have, and so a key sent as one. */
const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/;

/**
 * @param {string} base the page's address
 * @returns {string} the realtime socket's address beside it
 */
export function socketUrl(base) {
  const url = new URL("v1/realtime", base);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.search = "?model=antiphon&antiphon=1";
  return url.href;
}

/** @returns {string[]} the subprotocols that carry an access key; none without a key */
export function subprotocols(key) {
  return key && TOKEN.test(key) ? ["realtime", `openai-insecure-api-key.${key}`] : [];
}

export class RealtimeSocket {
  /**
   * @param {string} url
   * @param {object} options
   * @param {string} [options.key] access key
   * @param {(event: object) => void} options.onEvent every server event; audio comes as
   *   response.output_audio.delta with `samples` (Int16Array, 24 kHz) in place of `delta`
   * @param {(close: {code: number, reason: string}) => void} options.onClose called once
   * @param {() => void} [options.onTrouble] Opus did not work in this browser
   * @param {(bytes: number, way: "in"|"out") => void} [options.onBytes] of each message
   * @param {typeof WebSocket} [options.Socket]
   * @param {(handlers: object) => object} [options.makeDecoder] as OpusDecoder
   * @param {(handlers: object) => object} [options.makeEncoder] as OpusEncoder
   * @param {(call: () => void, ms: number) => unknown} [options.later] starts a timer
   */
  constructor(url, { key = "", onEvent, onClose, onTrouble = () => {}, onBytes = () => {}, ...parts }) {
    const Socket = parts.Socket ?? globalThis.WebSocket;
    const later = parts.later ?? ((call, ms) => setTimeout(call, ms));
    this.onClose = onClose;
    this.onBytes = onBytes;
    this.droppedFrames = 0;
    this.incoming = new Incoming({
      onEvent,
      onTrouble,
      makeDecoder: parts.makeDecoder ?? ((handlers) => new OpusDecoder(handlers)),
      later,
    });
    this.outgoing = new Outgoing({
      send: (data) => this.#put(data),
      onTrouble,
      makeEncoder: parts.makeEncoder ?? ((handlers) => new OpusEncoder(handlers)),
      later,
    });
    this.socket = new Socket(url, subprotocols(key));
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = ({ data }) => this.#take(data);
    this.socket.onclose = ({ code, reason }) => this.#closed(code, reason);
  }

  get isOpen() {
    return this.socket.readyState === 1;
  }

  /** Sends a client event; does nothing on a socket that is not open. */
  send(event) {
    if (this.isOpen) this.outgoing.event(event);
  }

  /** Sets how audio is sent from now on: "pcm16", "opus", or null for base64 in JSON. */
  useFormat(format) {
    this.outgoing.use(format);
  }

  /**
   * Sends 24 kHz PCM16.
   * @returns {boolean} false when the frame was dropped
   */
  sendAudio(samples) {
    if (!this.isOpen || this.socket.bufferedAmount > MAX_BACKLOG) {
      this.droppedFrames += 1;
      return false;
    }
    this.outgoing.audio(samples);
    return true;
  }

  /** Closes without a call of onClose. */
  close() {
    this.onClose = () => {};
    this.#stop();
    this.socket.close(1000);
  }

  #put(data) {
    // What an encoder gives late may meet a socket that has closed.
    if (!this.isOpen) return;
    this.onBytes(data.length, "out");
    this.socket.send(data);
  }

  #take(data) {
    this.onBytes(data.length ?? data.byteLength, "in");
    this.incoming.take(data);
  }

  #stop() {
    this.incoming.close();
    this.outgoing.close();
  }

  #closed(code, reason) {
    const { onClose } = this;
    this.onClose = () => {};
    this.#stop();
    onClose({ code, reason });
  }
}

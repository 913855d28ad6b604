/**
 * The realtime socket: opens it, sends client events, hands on server events.
 *
 * Audio skips the general path both ways: an append is put together as text, since base64 needs no
 * escaping, and a delta is decoded to samples before anyone sees it.
 */
import { decodeBase64, encodeBase64 } from "./dsp/pcm.js";

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
   * @param {(event: object) => void} options.onEvent every server event; audio deltas carry
   *   `samples` (Int16Array, 24 kHz) in place of `delta`
   * @param {(close: {code: number, reason: string}) => void} options.onClose called once
   * @param {typeof WebSocket} [options.Socket]
   */
  constructor(url, { key = "", onEvent, onClose, Socket = WebSocket }) {
    this.onEvent = onEvent;
    this.onClose = onClose;
    this.droppedFrames = 0;
    this.socket = new Socket(url, subprotocols(key));
    this.socket.onmessage = ({ data }) => this.#take(data);
    this.socket.onclose = ({ code, reason }) => this.#closed(code, reason);
  }

  get isOpen() {
    return this.socket.readyState === 1;
  }

  /** Sends a client event; does nothing on a socket that is not open. */
  send(event) {
    if (this.isOpen) this.socket.send(JSON.stringify(event));
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
    this.socket.send(`{"type":"input_audio_buffer.append","audio":"${encodeBase64(samples)}"}`);
    return true;
  }

  /** Closes without a call of onClose. */
  close() {
    this.onClose = () => {};
    this.onEvent = () => {};
    this.socket.close(1000);
  }

  #take(data) {
    const event = parse(data);
    if (event) this.onEvent(event);
  }

  #closed(code, reason) {
    const { onClose } = this;
    this.onClose = () => {};
    onClose({ code, reason });
  }
}

/** @returns {object|null} the event, or null for a frame that is none */
export function parse(data) {
  if (typeof data !== "string") return null;
  try {
    const event = JSON.parse(data);
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

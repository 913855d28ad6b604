/**
 * Binary audio: frames of a 16-byte header and then PCM16 or one Opus packet.
 *
 * The header is little-endian: version u8, kind u8, flags u16, epoch u32, number of the response
 * u32, position in ms u32. What a number stands for is said once, by antiphon.output_audio.started.
 */

const HEADER_BYTES = 16;
const VERSION = 1;

/** Kinds of frames. */
export const PCM16 = 1;
export const OPUS = 2;

/** Flag of the last frame of a part. */
const LAST = 1;

/** Parts that are remembered; a frame of an older one is not played. */
const MAX_PARTS = 16;

/**
 * @param {ArrayBuffer} buffer
 * @returns {{kind: number, last: boolean, epoch: number, number: number, positionMs: number,
 *   payload: Uint8Array}|null} null for a frame that is none of ours; the payload is a view
 */
export function readFrame(buffer) {
  if (buffer.byteLength < HEADER_BYTES) return null;
  const view = new DataView(buffer);
  const kind = view.getUint8(1);
  if (view.getUint8(0) !== VERSION || (kind !== PCM16 && kind !== OPUS)) return null;
  return {
    kind,
    last: (view.getUint16(2, true) & LAST) !== 0,
    epoch: view.getUint32(4, true),
    number: view.getUint32(8, true),
    positionMs: view.getUint32(12, true),
    payload: new Uint8Array(buffer, HEADER_BYTES),
  };
}

/**
 * @param {number} kind
 * @param {Uint8Array} payload
 * @returns {Uint8Array} a frame of the microphone: its epoch, number and position are 0
 */
export function writeFrame(kind, payload) {
  const frame = new Uint8Array(HEADER_BYTES + payload.length);
  frame[0] = VERSION;
  frame[1] = kind;
  frame.set(payload, HEADER_BYTES);
  return frame;
}

/** @returns {Uint8Array} the bytes of samples, as a view */
export function bytesOf(samples) {
  return new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
}

/** @returns {Int16Array} the samples in a payload, as a view; an odd last byte is left out */
export function samplesOf(payload) {
  return new Int16Array(payload.buffer, payload.byteOffset, payload.byteLength >> 1);
}

/** Which response's part each frame belongs to. */
export class Parts {
  constructor() {
    this.parts = new Map();
  }

  /** Takes an antiphon.output_audio.started event. */
  begin(event) {
    const key = keyOf(event);
    this.parts.delete(key);
    this.parts.set(key, {
      response_id: event.response_id,
      item_id: event.item_id,
      output_index: event.output_index,
      content_index: event.content_index,
    });
    if (this.parts.size > MAX_PARTS) this.parts.delete(this.parts.keys().next().value);
  }

  /** @returns {object|undefined} the ids of the part that a frame belongs to */
  of(frame) {
    return this.parts.get(keyOf(frame));
  }
}

function keyOf({ epoch, number }) {
  return `${epoch} ${number}`;
}

/** PCM16 samples to and from floats and base64, and levels. Little-endian, as every browser is. */

/** Bytes given to one String.fromCharCode call; engines limit the argument count. */
const SLICE = 8192;

/** @returns {Int16Array} the floats, clipped to [-1, 1], as 16-bit samples */
export function floatToInt16(floats) {
  const samples = new Int16Array(floats.length);
  for (let i = 0; i < floats.length; i += 1) {
    const value = Math.max(-1, Math.min(1, floats[i]));
    samples[i] = Math.round(value * 32767);
  }
  return samples;
}

/** Writes samples as floats in [-1, 1) to the start of `floats`. */
export function int16ToFloat(samples, floats) {
  for (let i = 0; i < samples.length; i += 1) floats[i] = samples[i] / 32768;
}

/** @returns {string} the samples' bytes in base64 */
export function encodeBase64(samples) {
  const bytes = new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
  if (bytes.toBase64) return bytes.toBase64();
  let text = "";
  for (let at = 0; at < bytes.length; at += SLICE) {
    text += String.fromCharCode.apply(null, bytes.subarray(at, at + SLICE));
  }
  return btoa(text);
}

/**
 * @returns {Int16Array} the samples, on a buffer of their own; an odd last byte is left out
 * @throws {DOMException|SyntaxError} when the text is not base64
 */
export function decodeBase64(text) {
  if (Uint8Array.fromBase64) {
    const bytes = Uint8Array.fromBase64(text);
    return new Int16Array(bytes.buffer, 0, bytes.length >> 1);
  }
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length & ~1);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = raw.charCodeAt(i);
  return new Int16Array(bytes.buffer);
}

/** @returns {number} loudness in 0..1 on a decibel scale: 0 at -54 dBFS and below, 1 at full scale */
export function loudness(meanSquare) {
  if (meanSquare <= 0) return 0;
  return Math.max(0, Math.min(1, 1 + (10 * Math.log10(meanSquare)) / 54));
}

/** @returns {number} the mean of the squared samples */
export function meanSquare(floats, count = floats.length) {
  let sum = 0;
  for (let i = 0; i < count; i += 1) sum += floats[i] * floats[i];
  return count === 0 ? 0 : sum / count;
}

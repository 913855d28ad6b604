/** Opus through the browser's own codecs, which work off the page's thread. */
import { WIRE_RATE } from "./dsp/framer.js";
import { floatToInt16 } from "./dsp/pcm.js";
import { Resampler } from "./dsp/resampler.js";

/** Length of a packet, in microseconds. */
const PACKET_US = 20000;

/** Opus is always decoded at 48 kHz. */
const DECODER = { codec: "opus", sampleRate: 48000, numberOfChannels: 1 };

/** What an encoder looks ahead, and a stream therefore begins with, in seconds. */
const PRE_SKIP = 0.0065;

const ENCODER = {
  codec: "opus",
  sampleRate: WIRE_RATE,
  numberOfChannels: 1,
  bitrate: 32000,
  opus: { frameDuration: PACKET_US, application: "voip" },
};

/** @returns {Promise<boolean>} whether this browser encodes and decodes Opus */
export async function offersOpus({ AudioDecoder, AudioEncoder } = globalThis) {
  try {
    const answers = await Promise.all([
      AudioDecoder.isConfigSupported(DECODER),
      AudioEncoder.isConfigSupported(ENCODER),
    ]);
    return answers.every(({ supported }) => supported);
  } catch {
    return false;
  }
}

/** Decodes the packets of one part after the other. */
export class OpusDecoder {
  /**
   * @param {object} handlers
   * @param {(index: number, samples: Int16Array, isEnd: boolean) => void} handlers.onAudio 24 kHz,
   *   perhaps none, of the packet of this index, or of the end after it
   * @param {() => void} handlers.onError it decodes no more
   * @param {object} [codecs] what has the browser's AudioDecoder and EncodedAudioChunk
   */
  constructor({ onAudio, onError }, codecs = globalThis) {
    this.onAudio = onAudio;
    this.onError = onError;
    this.codecs = codecs;
    this.resampler = null;
    this.skip = 0;
    this.floats = new Float32Array(0);
    this.decoder = new codecs.AudioDecoder({
      output: (audio) => this.#take(audio),
      error: () => this.#fail(),
    });
    this.decoder.configure(DECODER);
  }

  /** Takes the next packet; indices only rise. */
  decode(packet, index) {
    const { EncodedAudioChunk } = this.codecs;
    try {
      this.decoder.decode(
        new EncodedAudioChunk({ type: "key", timestamp: index * PACKET_US, duration: PACKET_US, data: packet }),
      );
    } catch {
      this.#fail();
    }
  }

  /** A part ends with the packet of this index: hands out the rest, and starts afresh. */
  async finish(index) {
    try {
      await this.decoder.flush();
    } catch {
      this.#fail();
      return;
    }
    this.onAudio(index, this.#tail(), true);
    this.resampler = null;
  }

  /** Drops what is not decoded yet, and says no more. Idempotent. */
  close() {
    this.onAudio = () => {};
    this.onError = () => {};
    if (this.decoder.state !== "closed") this.decoder.close();
  }

  #take(audio) {
    const index = Math.round(audio.timestamp / PACKET_US);
    const { numberOfFrames, sampleRate } = audio;
    if (this.floats.length < numberOfFrames) this.floats = new Float32Array(numberOfFrames);
    const floats = this.floats.subarray(0, numberOfFrames);
    audio.copyTo(floats, { planeIndex: 0, format: "f32-planar" });
    audio.close();
    if (!this.resampler) {
      this.resampler = new Resampler(sampleRate, WIRE_RATE);
      this.skip = Math.round(PRE_SKIP * sampleRate);
    }
    const skipped = Math.min(this.skip, numberOfFrames);
    this.skip -= skipped;
    const out = new Float32Array(this.resampler.maxOutput(numberOfFrames));
    const count = this.resampler.process(floats.subarray(skipped), out);
    this.onAudio(index, floatToInt16(out.subarray(0, count)), false);
  }

  #tail() {
    if (!this.resampler) return new Int16Array(0);
    const out = new Float32Array(this.resampler.maxOutput(this.resampler.delay));
    return floatToInt16(out.subarray(0, this.resampler.flush(out)));
  }

  #fail() {
    const { onError } = this;
    this.close();
    onError();
  }
}

/** Encodes the microphone's frames of 20 ms, one packet each. */
export class OpusEncoder {
  /**
   * @param {object} handlers
   * @param {(packet: Uint8Array) => void} handlers.onPacket
   * @param {() => void} handlers.onError it encodes no more
   * @param {object} [codecs] what has the browser's AudioEncoder and AudioData
   */
  constructor({ onPacket, onError }, codecs = globalThis) {
    this.onPacket = onPacket;
    this.onError = onError;
    this.codecs = codecs;
    this.taken = 0;
    this.given = 0;
    this.encoder = new codecs.AudioEncoder({
      output: (chunk) => this.#give(chunk),
      error: () => this.#fail(),
    });
    this.encoder.configure(ENCODER);
  }

  /** Whether something that went in has not come out yet. */
  get isBusy() {
    return this.given < this.taken;
  }

  /** Takes 24 kHz PCM16. */
  encode(samples) {
    const { AudioData } = this.codecs;
    try {
      const audio = new AudioData({
        format: "s16",
        sampleRate: WIRE_RATE,
        numberOfFrames: samples.length,
        numberOfChannels: 1,
        timestamp: this.taken * PACKET_US,
        data: samples,
      });
      this.taken += 1;
      this.encoder.encode(audio);
      audio.close();
    } catch {
      this.#fail();
    }
  }

  /** Settles once everything taken so far has come out, or the encoder is closed. */
  async flush() {
    const { taken } = this;
    await this.encoder.flush().catch(() => {});
    // An encoder gives what it looked ahead in a packet more.
    this.given = taken;
  }

  /** Idempotent. */
  close() {
    this.onPacket = () => {};
    this.onError = () => {};
    if (this.encoder.state !== "closed") this.encoder.close();
  }

  #give(chunk) {
    const packet = new Uint8Array(chunk.byteLength);
    chunk.copyTo(packet);
    this.given += 1;
    this.onPacket(packet);
  }

  #fail() {
    const { onError } = this;
    this.close();
    onError();
  }
}

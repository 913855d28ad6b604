/**
 * The microphone: 20 ms frames of 24 kHz PCM16, with a little of what came before a press, and the
 * clock that tells when a position of the sent stream was spoken.
 */

/** Frames kept while nothing is sent, so that a press does not lose the first syllable: 120 ms. */
const PRE_ROLL_FRAMES = 6;

/** Marks of (position, time) kept: a minute, one each 20 ms. */
const MAX_MARKS = 3000;

const FRAME_MS = 20;

/** Why there is no microphone; `code` is insecure, refused, missing, busy or failed. */
export class MicrophoneError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const CODES = {
  NotAllowedError: "refused",
  SecurityError: "refused",
  NotFoundError: "missing",
  OverconstrainedError: "missing",
  NotReadableError: "busy",
  AbortError: "busy",
};

/** When each part of the sent stream was spoken. */
export class StreamClock {
  constructor() {
    this.reset();
  }

  /** A new session counts from zero. */
  reset() {
    this.sentMs = 0;
    this.marks = [];
  }

  /** A frame was sent whose last sample was captured at `time` seconds. */
  sent(time, ms = FRAME_MS) {
    this.sentMs += ms;
    this.marks.push({ ms: this.sentMs, time });
    if (this.marks.length > MAX_MARKS) this.marks.splice(0, MAX_MARKS / 2);
  }

  /** @returns {number|null} when position `ms` was captured, in seconds; null when unknown */
  timeAt(ms) {
    const mark = this.marks.find((one) => one.ms >= ms) ?? this.marks.at(-1);
    return mark ? mark.time - (mark.ms - ms) / 1000 : null;
  }
}

export class Microphone {
  /**
   * @param {object} handlers
   * @param {(samples: Int16Array, level: number, time: number) => void} handlers.onFrame
   * @param {() => void} handlers.onLost the device was unplugged or the permission withdrawn
   */
  constructor({ onFrame, onLost }) {
    this.onFrame = onFrame;
    this.onLost = onLost;
    this.stream = null;
    this.nodes = [];
    this.preRoll = [];
    this.generation = 0;
  }

  get isOpen() {
    return this.stream !== null;
  }

  /**
   * Opens the microphone, closing what was open.
   * @param {AudioContext} context with the capture worklet loaded
   * @param {{echoCancellation: boolean}} options
   * @throws {MicrophoneError}
   */
  async open(context, { echoCancellation }) {
    this.close();
    const generation = this.generation;
    const stream = await request(echoCancellation);
    if (generation !== this.generation) {
      stopTracks(stream);
      return;
    }
    this.stream = stream;
    stream.getAudioTracks()[0].onended = () => this.#lost();
    const source = context.createMediaStreamSource(stream);
    const capture = new AudioWorkletNode(context, "antiphon-capture", { numberOfOutputs: 0 });
    capture.port.onmessage = ({ data }) => this.#frame(data);
    source.connect(capture);
    this.nodes = [source, capture];
  }

  close() {
    this.generation += 1;
    for (const node of this.nodes) node.disconnect();
    if (this.nodes[1]) this.nodes[1].port.onmessage = null;
    if (this.stream) stopTracks(this.stream);
    this.nodes = [];
    this.stream = null;
    this.preRoll = [];
  }

  /** Takes the frames that came just before now: [{samples, time}], oldest first. */
  takePreRoll() {
    const frames = this.preRoll;
    this.preRoll = [];
    return frames;
  }

  #frame({ samples, level, time }) {
    this.preRoll.push({ samples, time });
    if (this.preRoll.length > PRE_ROLL_FRAMES) this.preRoll.shift();
    this.onFrame(samples, level, time);
  }

  #lost() {
    this.close();
    this.onLost();
  }
}

function stopTracks(stream) {
  for (const track of stream.getTracks()) {
    track.onended = null;
    track.stop();
  }
}

async function request(echoCancellation) {
  if (!globalThis.isSecureContext || !navigator.mediaDevices) {
    throw new MicrophoneError("insecure", "the page is not served over a secure connection");
  }
  const audio = {
    channelCount: 1,
    echoCancellation,
    noiseSuppression: true,
    autoGainControl: true,
  };
  try {
    return await navigator.mediaDevices.getUserMedia({ audio });
  } catch (error) {
    throw new MicrophoneError(CODES[error.name] ?? "failed", error.message);
  }
}

/* global AudioWorkletProcessor, registerProcessor, sampleRate, currentTime */
import { JitterBuffer } from "../dsp/jitter.js";
import { loudness, meanSquare } from "../dsp/pcm.js";

/** How often the position goes out while something is queued. */
const REPORT_SECONDS = 0.05;

/**
 * Takes {type: "push", id, samples}, {type: "finish", id}, {type: "clear", token} and
 * {type: "duck", on}. Sends "started", "ended", "position" and "cleared" messages.
 */
class Playback extends AudioWorkletProcessor {
  constructor() {
    super();
    this.buffer = new JitterBuffer(sampleRate);
    this.reportAt = 0;
    this.energy = 0;
    this.blocks = 0;
    this.level = 0;
    this.port.onmessage = ({ data }) => this.#take(data);
  }

  process(_inputs, outputs) {
    const channels = outputs[0];
    const out = channels[0];
    this.buffer.pull(out, (event) => {
      this.port.postMessage({ ...event, time: currentTime + event.offset / sampleRate });
    });
    for (let i = 1; i < channels.length; i += 1) channels[i].set(out);
    this.energy += meanSquare(out);
    this.blocks += 1;
    if (currentTime >= this.reportAt) this.#report();
    return true;
  }

  #take(message) {
    if (message.type === "push") this.buffer.push(message.id, message.samples);
    else if (message.type === "finish") this.buffer.finish(message.id);
    else if (message.type === "duck") this.buffer.duck(message.on);
    else if (message.type === "clear") {
      const items = this.buffer.clear();
      this.energy = 0;
      this.port.postMessage({ type: "cleared", token: message.token, items });
    }
  }

  #report() {
    this.reportAt = currentTime + REPORT_SECONDS;
    const level = loudness(this.energy / this.blocks);
    const fell = level < this.level;
    this.level = level;
    this.energy = 0;
    this.blocks = 0;
    // A last report says that it is silent now.
    if (this.buffer.current || level > 0 || fell) {
      this.port.postMessage({ type: "position", level, ...this.buffer.position() });
    }
  }
}

registerProcessor("antiphon-playback", Playback);

/* global AudioWorkletProcessor, registerProcessor, sampleRate, currentTime */
import { Framer } from "../dsp/framer.js";

/** Sends {samples: Int16Array of 20 ms at 24 kHz, level: 0..1, time: context seconds}. */
class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.framer = new Framer(sampleRate);
    this.silence = new Float32Array(128);
  }

  process(inputs) {
    const channels = inputs[0];
    // A device that is being swapped gives no channel; time goes on, so silence stands in.
    const block = channels.length === 0 ? this.silence : mix(channels);
    this.framer.push(block, (samples, level) => {
      const time = currentTime + block.length / sampleRate;
      this.port.postMessage({ samples, level, time }, [samples.buffer]);
    });
    return true;
  }
}

/** The mean of the channels. */
function mix(channels) {
  if (channels.length === 1) return channels[0];
  const mono = new Float32Array(channels[0].length);
  for (const channel of channels) {
    for (let i = 0; i < mono.length; i += 1) mono[i] += channel[i] / channels.length;
  }
  return mono;
}

registerProcessor("antiphon-capture", Capture);

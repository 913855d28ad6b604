import { MicrophoneError } from "./audio-in.js";

const WORKLETS = ["worklets/capture.js", "worklets/playback.js"];

/**
 * @returns {Promise<AudioContext>} one context for both directions, so that they share a clock
 * @throws {MicrophoneError} with code "insecure" where browsers offer no worklets
 */
export async function makeContext() {
  if (!globalThis.isSecureContext) {
    throw new MicrophoneError("insecure", "the page is not served over a secure connection");
  }
  const context = new AudioContext({ latencyHint: "interactive" });
  // Resumed inside the gesture: after an await, some browsers no longer count it as one.
  context.resume();
  await Promise.all(
    WORKLETS.map((path) => context.audioWorklet.addModule(new URL(path, import.meta.url))),
  );
  return context;
}

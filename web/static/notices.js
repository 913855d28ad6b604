/** What the page says to the person: one text for each code, and what can be done about it. */

const TEXTS = {
  "microphone-insecure":
    "Browsers allow sound and the microphone only on a secure page. Open this page over https, or on localhost.",
  "microphone-refused":
    "The microphone is blocked for this page. Allow it in the browser’s site settings, then press the button again. You can type meanwhile.",
  "microphone-missing":
    "No microphone was found. Connect one and press the button again, or type your message.",
  "microphone-busy":
    "Another program holds the microphone. Close it and press the button again, or type your message.",
  "microphone-failed": "The microphone did not start. Press the button to try again, or type your message.",
  "microphone-lost": "The microphone went away. Press the button to use another one.",
  "sound-failed": "This browser did not start its sound. Reload the page, or try another browser.",
  "held-too-short": "Hold the button for as long as you speak, then let go.",
  "voice-later":
    "The voice stays the same once the assistant has spoken. The new one is used from the next conversation on.",
  "reply-failed": "The reply could not be finished. Please ask again.",
};

/**
 * @param {string} code
 * @param {object} [detail]
 * @returns {{text: string, tone: "info"|"warn", stages: [string, string][], action: string|null}}
 *   `action` is "reconnect", "key" or null
 */
export function notice(code, detail = {}) {
  if (code === "link-loading") return loading(detail.stages);
  if (code === "link-lost") return lost(detail.retryMs);
  if (code === "link-gone") return gone(detail);
  if (code === "server-error") return plain(`The server says: ${detail.message}`, "warn");
  const tone = code === "held-too-short" || code === "voice-later" ? "info" : "warn";
  return plain(TEXTS[code] ?? "", tone);
}

function plain(text, tone, action = null) {
  return { text, tone, stages: [], action };
}

function loading(stages) {
  const list = Object.entries(stages ?? {}).map(([name, value]) => [name, stageWord(value)]);
  return { ...plain("The models are still loading. The conversation starts by itself.", "info"), stages: list };
}

/** Stages come as a word, a yes or no, or an object with one of these. */
function stageWord(value) {
  if (value && typeof value === "object") return stageWord(value.state ?? value.status ?? value.ready);
  if (typeof value === "boolean") return value ? "ready" : "loading";
  return typeof value === "string" ? value : "loading";
}

function lost(retryMs) {
  const seconds = Math.max(1, Math.round(retryMs / 1000));
  return plain(`The server does not answer. Trying again in ${seconds} s.`, "warn", "reconnect");
}

function gone({ refused, wrong, code, reason }) {
  if (wrong) return plain("The server did not accept the access key.", "warn", "key");
  if (refused) return plain("This server needs an access key.", "info", "key");
  if (code === 4001) return plain("This conversation goes on in another window.", "info", "reconnect");
  return plain(reason ? `The server ended the connection: ${reason}` : "The server cannot be reached.", "warn", "reconnect");
}

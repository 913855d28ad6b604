/** What a person can set: kept in the browser, checked when read, turned into session fields. */

const STORE = "antiphon.settings.v1";
const KEY_STORE = "antiphon.key";

/** Letters of instructions; well below the server's bound of 16,384 tokens. */
export const MAX_INSTRUCTIONS = 8000;

/** Silence that ends a turn, in ms. */
export const SILENCE = { least: 150, most: 1500, step: 50, usual: 500 };

export const DEFAULTS = Object.freeze({
  /** "open": the server hears when a turn ends; "hold": a button says so */
  mode: "open",
  /** empty: the server's own */
  instructions: "",
  /** empty: the server's own */
  voice: "",
  silenceMs: SILENCE.usual,
  echoCancellation: true,
});

/** @returns {typeof DEFAULTS} the settings in any value, with the default for what does not fit */
export function checked(value) {
  const given = value && typeof value === "object" ? value : {};
  const silence = Number.isFinite(given.silenceMs) ? given.silenceMs : DEFAULTS.silenceMs;
  return {
    mode: given.mode === "hold" ? "hold" : "open",
    instructions: text(given.instructions, MAX_INSTRUCTIONS),
    voice: text(given.voice, 200),
    silenceMs: Math.max(SILENCE.least, Math.min(SILENCE.most, Math.round(silence))),
    echoCancellation: given.echoCancellation !== false,
  };
}

function text(value, most) {
  return typeof value === "string" ? value.slice(0, most) : "";
}

/** Reads the stored settings. A browser that stores nothing gives the defaults. */
export function load(storage) {
  try {
    return checked(JSON.parse(storage.getItem(STORE) ?? "{}"));
  } catch {
    return { ...DEFAULTS };
  }
}

/** Stores the settings; a full or forbidden store is no error, they then last as long as the page. */
export function save(storage, settings) {
  try {
    storage.setItem(STORE, JSON.stringify(settings));
  } catch {
    return;
  }
}

/** The access key lives in the tab only. */
export function loadKey(storage) {
  try {
    return storage.getItem(KEY_STORE) ?? "";
  } catch {
    return "";
  }
}

export function saveKey(storage, key) {
  try {
    if (key) storage.setItem(KEY_STORE, key);
    else storage.removeItem(KEY_STORE);
  } catch {
    return;
  }
}

/** @returns {object|null} the turn_detection field */
export function turnDetection(settings) {
  if (settings.mode === "hold") return null;
  return {
    type: "server_vad",
    silence_duration_ms: settings.silenceMs,
    create_response: true,
    interrupt_response: true,
  };
}

/**
 * @param {typeof DEFAULTS} settings
 * @param {string} ownInstructions the server's instructions, for a person who set none
 * @returns {object} the session field of a session.update; without the voice, since a server may
 *   refuse that one and a refused update changes nothing
 */
export function sessionFields(settings, ownInstructions) {
  return {
    type: "realtime",
    instructions: settings.instructions || ownInstructions,
    audio: {
      input: {
        format: { type: "audio/pcm", rate: 24000 },
        turn_detection: turnDetection(settings),
        transcription: { model: "whisper-1" },
      },
    },
  };
}

/** @returns {object} the session field that changes only the voice */
export function voiceFields(voice) {
  return { type: "realtime", audio: { output: { voice } } };
}

/** The settings dialog: fills its fields, and calls back with checked settings. */
import { DEFAULTS, checked } from "./settings.js";

export class SettingsPanel {
  /**
   * @param {(id: string) => HTMLElement} byId finds an element of the page
   * @param {object} options
   * @param {object} options.settings
   * @param {string} options.key the access key
   * @param {(settings: object) => void} options.onSettings
   * @param {(key: string) => void} options.onKey
   */
  constructor(byId, { settings, key, onSettings, onKey }) {
    this.settings = settings;
    this.onSettings = onSettings;
    this.dialog = byId("settings");
    this.voice = byId("voice");
    this.instructions = byId("instructions");
    this.silence = byId("silence");
    this.silenceValue = byId("silence-value");
    this.echo = byId("echo");
    this.modes = [...byId("mode").querySelectorAll("input")];
    this.voiceKey = "";
    byId("open-settings").addEventListener("click", () => this.open());
    byId("reset").addEventListener("click", () => this.#set({ ...DEFAULTS, mode: this.settings.mode }));
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
    this.#listen();
    this.key = byId("key");
    this.showKey(key);
    this.key.addEventListener("change", ({ target }) => onKey(target.value.trim()));
    this.#fill();
  }

  open() {
    this.dialog.showModal();
  }

  /** Shows a key that was entered elsewhere. */
  showKey(key) {
    this.key.value = key;
  }

  get isOpen() {
    return this.dialog.open;
  }

  /** Offers the server's voices and shows its own choices as what happens by default. */
  offer({ names, usual }, instructions) {
    const key = JSON.stringify([names, usual]);
    if (instructions) this.instructions.placeholder = instructions;
    if (key === this.voiceKey) return;
    this.voiceKey = key;
    const listed = this.settings.voice && !names.includes(this.settings.voice);
    const all = listed ? [...names, this.settings.voice] : names;
    const own = new Option(usual ? `The server’s own (${usual})` : "The server’s own", "");
    this.voice.replaceChildren(own, ...all.map((name) => new Option(name, name)));
    this.voice.value = this.settings.voice;
  }

  #listen() {
    const on = (element, name, read) =>
      element.addEventListener("change", () => this.#set({ ...this.settings, [name]: read() }));
    on(this.voice, "voice", () => this.voice.value);
    on(this.instructions, "instructions", () => this.instructions.value.trim());
    on(this.silence, "silenceMs", () => Number(this.silence.value));
    on(this.echo, "echoCancellation", () => this.echo.checked);
    for (const input of this.modes) on(input, "mode", () => input.value);
    this.silence.addEventListener("input", () => this.#showSilence(this.silence.value));
  }

  #set(settings) {
    this.settings = checked(settings);
    this.#fill();
    this.onSettings(this.settings);
  }

  #fill() {
    const { settings } = this;
    this.voice.value = settings.voice;
    this.instructions.value = settings.instructions;
    this.silence.value = String(settings.silenceMs);
    this.echo.checked = settings.echoCancellation;
    for (const input of this.modes) input.checked = input.value === settings.mode;
    this.#showSilence(settings.silenceMs);
  }

  #showSilence(ms) {
    this.silenceValue.textContent = `${ms} ms`;
  }
}

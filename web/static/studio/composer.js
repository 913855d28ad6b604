/** The form: shows what a model can, and holds what is asked for. */
import { SEEDS, bodyOf, fault, fitted, rolled, shapeOf, shaped } from "./asking.js";
import { choose, make, radios } from "./elements.js";
import { Reference } from "./reference.js";

/** Letters of a prompt that are left, from which on they are told. */
const FEW_LEFT = 200;

export class Composer {
  /**
   * @param {(id: string) => HTMLElement} byId
   * @param {object} handlers
   * @param {(body: object) => void} handlers.onMake
   * @param {(settings: object) => void} handlers.onChange to keep the draft
   */
  constructor(byId, { onMake, onChange }) {
    this.byId = byId;
    this.onMake = onMake;
    this.onChange = onChange;
    this.models = [];
    this.model = null;
    this.settings = null;
    this.reference = new Reference(byId, {
      onPicture: (picture) => this.#set({ picture }),
      onFault: (text) => this.say(text),
    });
    this.#bindTexts();
    this.#bindNumbers();
    this.#bindChoices();
    byId("ask").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    byId("prompt").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.submit();
    });
  }

  /** @param {object[]} models what there is; @param {object|null} draft settings to begin with */
  offer(models, draft) {
    this.models = models;
    const model = models.find(({ name }) => name === draft?.model) ?? models[0];
    if (model) this.#use(model, draft);
  }

  /**
   * Takes settings over, of a picture that was made.
   *
   * @returns {boolean} false where their model is no longer there
   */
  fill(settings) {
    const model = this.models.find(({ name }) => name === settings.model);
    if (!model) return false;
    this.#use(model, settings);
    this.onChange(this.settings);
    return true;
  }

  /** A seed that is shown, and so kept until another is rolled. */
  roll() {
    this.#set({ seed: rolled() });
  }

  submit() {
    if (!this.model) return;
    const wrong = fault(this.settings, this.model);
    this.say(wrong?.text ?? "");
    if (wrong) {
      this.byId(FIELDS[wrong.field]).focus();
      return;
    }
    this.onMake(bodyOf(this.settings, this.model));
  }

  /** @param {string} text what has to be changed first; empty: nothing */
  say(text) {
    const line = this.byId("fault");
    line.hidden = text === "";
    line.textContent = text;
  }

  #use(model, settings) {
    this.model = model;
    this.settings = fitted(settings, model);
    this.say("");
    this.#showModel();
    this.#show();
  }

  #set(change) {
    if (!this.model) return;
    Object.assign(this.settings, change);
    this.say("");
    this.#show();
    this.onChange(this.settings);
  }

  #bindTexts() {
    for (const name of ["prompt", "negative"]) {
      this.byId(FIELDS[name]).addEventListener("input", ({ target }) => this.#set({ [name]: target.value }));
    }
    this.byId("seed").addEventListener("input", ({ target }) => {
      const digits = target.value.replace(/\D/g, "");
      target.value = digits;
      this.#set({ seed: digits === "" ? null : Math.min(SEEDS - 1, Number(digits)) });
    });
    this.byId("roll").addEventListener("click", () => this.roll());
  }

  #bindNumbers() {
    for (const name of ["steps", "guidance", "strength", "frames"]) {
      this.byId(FIELDS[name]).addEventListener("input", ({ target }) => this.#set({ [name]: target.valueAsNumber }));
    }
    for (const name of ["width", "height", "count", "rate"]) {
      // When left: a number that is being typed is not put right yet.
      this.byId(FIELDS[name]).addEventListener("change", ({ target }) => {
        const value = Number.isFinite(target.valueAsNumber) ? target.valueAsNumber : undefined;
        this.#set(pick(fitted({ ...this.settings, [name]: value }, this.model), name));
      });
    }
  }

  #bindChoices() {
    this.byId("model").addEventListener("change", ({ target }) => this.#switch(target.value));
    for (const kind of radios("kind")) {
      kind.addEventListener("change", () => this.#switch(this.models.find((model) => model.kind === kind.value).name));
    }
    for (const shape of radios("shape")) {
      shape.addEventListener("change", () => this.#set(shaped(shape.value, this.model)));
    }
    this.byId("reset").addEventListener("click", () => {
      const { prompt, picture } = this.settings;
      this.#use(this.model, { prompt, picture });
      this.onChange(this.settings);
    });
  }

  #switch(name) {
    this.#use(this.models.find((model) => model.name === name), this.settings);
    this.onChange(this.settings);
  }

  #showModel() {
    const { model, models, byId } = this;
    const alike = models.filter(({ kind }) => kind === model.kind);
    byId("kinds").hidden = new Set(models.map(({ kind }) => kind)).size < 2;
    choose("kind", model.kind);
    byId("model").replaceChildren(...alike.map(({ name }) => new Option(name, name, false, name === model.name)));
    byId("model-field").hidden = alike.length < 2;
    byId("untrained").hidden = !model.untrained;
    byId("picture-field").hidden = !model.takesPicture;
    byId("negative-field").hidden = !model.negative;
    byId("guidance-field").hidden = model.mostGuidance <= 0;
    byId("count-field").hidden = model.kind !== "image";
    byId("frames-field").hidden = !model.frames;
    byId("rate-field").hidden = !model.frames;
    byId("prompt").maxLength = model.promptChars;
    byId("steps").max = String(model.mostSteps);
    byId("guidance").max = String(model.mostGuidance);
    for (const name of ["width", "height"]) byId(FIELDS[name]).step = String(model.multiple);
    if (model.frames) this.#showFrames(model.frames);
    this.#showExamples();
    this.#showAdapters();
  }

  #showFrames({ every, most }) {
    const range = this.byId("frames");
    Object.assign(range, { min: String(1 + every), max: String(most), step: String(every) });
  }

  #showExamples() {
    const items = this.model.examples.map((text) => {
      const item = make("li");
      const button = make("button", "", text);
      button.type = "button";
      button.addEventListener("click", () => {
        this.#set({ prompt: text });
        this.byId("prompt").focus();
      });
      item.append(button);
      return item;
    });
    this.byId("examples").replaceChildren(...items);
  }

  #showAdapters() {
    const { adapters } = this.model;
    this.byId("adapters-field").hidden = adapters.length === 0;
    this.byId("adapters").replaceChildren(...adapters.map((name) => this.#adapter(name)));
  }

  #adapter(name) {
    const label = make("label", "adapter");
    const range = make("input");
    Object.assign(range, { type: "range", min: "0", max: "1", step: "0.05", value: String(this.settings.adapters[name] ?? 0) });
    range.addEventListener("input", () => {
      const { [name]: _, ...others } = this.settings.adapters;
      this.#set({ adapters: range.valueAsNumber > 0 ? { ...others, [name]: range.valueAsNumber } : others });
    });
    label.append(make("span", "", name), range);
    return label;
  }

  #show() {
    const { byId, settings, model } = this;
    for (const [name, id] of Object.entries(FIELDS)) {
      const field = byId(id);
      if (name in settings && field.tagName !== "BUTTON") put(field, settings[name]);
    }
    put(byId("seed"), settings.seed ?? "");
    byId("steps-value").textContent = String(settings.steps);
    byId("guidance-value").textContent = settings.guidance === 0 ? "off" : String(settings.guidance);
    byId("strength-value").textContent = `${Math.round(settings.strength * 100)} %`;
    byId("frames-value").textContent = `${(settings.frames / Math.max(1, settings.rate)).toFixed(1)} s`;
    choose("shape", shapeOf(settings, model));
    this.reference.show(settings.picture);
    byId("strength-field").hidden = !model.strength || settings.picture === null;
    const left = model.promptChars - settings.prompt.length;
    byId("prompt-left").hidden = left > FEW_LEFT;
    byId("prompt-left").textContent = `${left} left`;
    byId("make").textContent = label(settings, model);
  }
}

/** Settings, and the elements that hold them. */
const FIELDS = {
  prompt: "prompt",
  negative: "negative",
  width: "width",
  height: "height",
  count: "count",
  steps: "steps",
  guidance: "guidance",
  strength: "strength",
  frames: "frames",
  rate: "rate",
  picture: "choose-picture",
};

function label({ count }, { kind }) {
  if (kind === "video") return "Make the clip";
  return count > 1 ? `Make ${count} pictures` : "Make the picture";
}

/** A value goes in only where it is another: the cursor stays where it is. */
function put(field, value) {
  const text = String(value);
  if (field.value !== text) field.value = text;
}

function pick(settings, name) {
  return { [name]: settings[name] };
}

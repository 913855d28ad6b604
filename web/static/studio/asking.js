/** What a person asks for: from a model's card, to a request, and back from a job. Pure. */

export const SEEDS = 2 ** 32;

/** Pictures at once, at most; a deployment may allow fewer. */
export const MOST_PICTURES = 10;

/** Shapes by their width over their height. */
export const SHAPES = { square: 1, wide: 3 / 2, tall: 2 / 3 };

/** Prompts to begin with, for models that name none. */
const EXAMPLES = {
  image: ["a red apple on a blue background", "two yellow stars", "a big cat on the left", "a dog and a rocket"],
  video: ["a ball moving to the right", "a star that grows", "a red car moving left", "a fish turning"],
};

/** @returns {object[]} the models that make something, as the form knows them */
export function makers(cards) {
  return cards.flatMap((card) => {
    const kind = (card.capabilities ?? []).find((each) => each === "image" || each === "video");
    return kind && card.defaults && card.limits ? [maker(card, kind)] : [];
  });
}

function maker(card, kind) {
  const [width, height] = card.defaults.size.split("x").map(Number);
  const inputs = card.inputs ?? [[]];
  return {
    name: card.id,
    kind,
    untrained: card.untrained === true,
    width,
    height,
    steps: card.defaults.steps,
    guidance: card.defaults.guidance,
    multiple: card.limits.multiple_of ?? 8,
    pixels: card.limits.pixels ?? width * height,
    mostSteps: card.limits.steps ?? 100,
    mostGuidance: card.limits.guidance ?? 0,
    promptChars: card.limits.prompt_chars ?? 2000,
    negative: card.negative_prompt === true,
    takesPicture: inputs.some((names) => names.length === 1 && names[0] === "image"),
    needsPicture: !inputs.some((names) => names.length === 0),
    strength: card.strength === true,
    adapters: card.adapters ?? [],
    frames: card.frames ?? null,
    examples: Array.isArray(card.examples) && card.examples.length > 0 ? card.examples.slice(0, 8).map(String) : EXAMPLES[kind],
  };
}

/** @returns {object} the settings of a model where nothing was chosen */
export function usual(model) {
  return {
    model: model.name,
    prompt: "",
    negative: "",
    width: model.width,
    height: model.height,
    steps: model.steps,
    guidance: model.guidance,
    seed: null,
    count: 1,
    frames: model.frames?.default ?? 1,
    rate: model.frames?.per_second ?? 0,
    strength: 0.8,
    adapters: {},
    picture: null,
  };
}

/** @returns {object} settings of any origin made to fit a model; what can't be is the usual */
export function fitted(settings, model) {
  const plain = usual(model);
  const kept = settings ?? {};
  const same = kept.model === model.name;
  const own = same ? kept : {};
  return {
    ...plain,
    prompt: text(kept.prompt, model.promptChars),
    negative: model.negative ? text(kept.negative, model.promptChars) : "",
    width: side(own.width, plain.width, model.multiple),
    height: side(own.height, plain.height, model.multiple),
    steps: within(own.steps, 1, model.mostSteps, plain.steps),
    guidance: within(own.guidance, 0, model.mostGuidance, plain.guidance),
    seed: Number.isInteger(kept.seed) && kept.seed >= 0 && kept.seed < SEEDS ? kept.seed : null,
    count: model.kind === "image" ? Math.round(within(kept.count, 1, MOST_PICTURES, 1)) : 1,
    frames: model.frames ? within(own.frames, 1, model.frames.most, plain.frames) : 1,
    rate: model.frames ? within(own.rate, 1, 120, plain.rate) : 0,
    strength: within(kept.strength, 0.05, 1, plain.strength),
    adapters: Object.fromEntries(model.adapters.flatMap((name) => (own.adapters?.[name] > 0 ? [[name, own.adapters[name]]] : []))),
    picture: model.takesPicture ? (kept.picture ?? null) : null,
  };
}

function text(value, most) {
  return typeof value === "string" ? value.slice(0, most) : "";
}

function within(value, least, most, otherwise) {
  return Number.isFinite(value) ? Math.min(most, Math.max(least, value)) : otherwise;
}

function side(value, otherwise, multiple) {
  return Number.isFinite(value) && value >= multiple ? Math.round(value / multiple) * multiple : otherwise;
}

/** @returns {{width: number, height: number}} of a shape, with about the pixels of the model's own size */
export function shaped(shape, model) {
  const area = model.width * model.height;
  const ratio = SHAPES[shape];
  const fit = (length) => Math.max(model.multiple, Math.round(length / model.multiple) * model.multiple);
  return { width: fit(Math.sqrt(area * ratio)), height: fit(Math.sqrt(area / ratio)) };
}

/** @returns {string} the shape that a size is of, or "own" */
export function shapeOf({ width, height }, model) {
  const found = Object.keys(SHAPES).find((shape) => {
    const of = shaped(shape, model);
    return of.width === width && of.height === height;
  });
  return found ?? "own";
}

/** @returns {{field: string, text: string}|null} what the server would refuse, told at once */
export function fault(settings, model) {
  if (!settings.prompt.trim()) return { field: "prompt", text: "Say first what it should show." };
  if (settings.width % model.multiple || settings.height % model.multiple) {
    return { field: "width", text: `Width and height go in steps of ${model.multiple} pixels.` };
  }
  if (settings.width * settings.height > model.pixels) {
    return { field: "width", text: `That is too large: at most ${model.pixels.toLocaleString("en")} pixels in all.` };
  }
  if (model.needsPicture && !settings.picture) {
    return { field: "picture", text: "This model begins with a picture: choose one." };
  }
  return null;
}

/** @returns {object} the body of POST /v1/jobs */
export function bodyOf(settings, model) {
  const { width, height, steps, guidance, seed } = settings;
  const body = { kind: model.kind, model: model.name, prompt: settings.prompt.trim(), size: `${width}x${height}`, steps, guidance };
  if (seed !== null) body.seed = seed;
  if (model.negative && settings.negative.trim()) body.negative_prompt = settings.negative.trim();
  if (model.kind === "image" && settings.count > 1) body.n = settings.count;
  if (model.frames) Object.assign(body, { frames: settings.frames, frames_per_second: settings.rate });
  if (Object.keys(settings.adapters).length > 0) body.adapters = settings.adapters;
  if (model.takesPicture && settings.picture) {
    body.image = settings.picture.url;
    if (model.strength) body.strength = settings.strength;
  }
  return body;
}

/** @returns {object} the settings that make one picture of a job again, but for a picture that went in */
export function settingsOf(job, at) {
  const task = job.tasks[at];
  return {
    model: task.model,
    prompt: task.prompt,
    negative: task.negative_prompt ?? "",
    width: task.width,
    height: task.height,
    steps: task.steps,
    guidance: task.guidance,
    seed: task.seed,
    count: 1,
    frames: task.frames ?? 1,
    rate: task.frames_per_second ?? 0,
    strength: task.strength ?? 1,
    adapters: task.adapters ?? {},
    picture: null,
  };
}

/** @returns {boolean} whether a picture went into a task */
export function hadPicture(job, at) {
  return Object.keys(job.tasks[at].inputs ?? {}).length > 0;
}

/** @returns {number} a seed that nobody chose */
export function rolled(random = globalThis.crypto) {
  return random.getRandomValues(new Uint32Array(1))[0];
}

// What every client script here shares: its job, a microphone, the events seen, the report.

import { readFileSync } from 'node:fs';

/** The client must have heard so much of a reply before it is interrupted. */
export const HEARD_MS = 1_000;

const RATE = 24_000;
const PIECE_MS = 100;
const BYTES_PER_MS = (2 * RATE) / 1000;
const WAV_HEADER = 44;

/** What the test hands over: url, model, question and interjection (WAV files), scripted. */
export const job = JSON.parse(process.argv[2]);

/** Longest wait for anything the server has to do, in milliseconds. */
const WAIT_MS = 1000 * (job.wait_seconds ?? 90);

export const INSTRUCTIONS = 'You are a friendly guide. Answer in one or two sentences.';
export const WRITTEN_QUESTION = 'Why is the sky blue?';
export const TOOL_QUESTION = 'What is the weather in Paris?';
export const LONG_QUESTION = 'Tell me a long story about the sky, with many details.';

export const TOOL = {
  type: 'function',
  name: 'get_weather',
  description: 'Tells the weather of a city.',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string', maxLength: 40 } },
    required: ['city'],
    additionalProperties: false,
  },
};

/** The function that the model calls; throws where the arguments break its schema. */
export function getWeather(args) {
  check(typeof args.city === 'string', `arguments of the call: ${JSON.stringify(args)}`);
  return { weather: 'seventeen degrees and rain' };
}

export function check(condition, why) {
  if (!condition) throw new Error(why);
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** 24 kHz PCM of a WAV file. */
export const readSpeech = (path) => readFileSync(path).subarray(WAV_HEADER);

/** How long base64 PCM sounds. */
export const audioMs = (base64) => Buffer.byteLength(base64, 'base64') / BYTES_PER_MS;

/** A microphone: while it is on, silence and what is said into it. */
export class Microphone {
  #said = Buffer.alloc(0);
  #timer = null;
  #due = 0;

  constructor(send) {
    this.send = send;
  }

  on() {
    this.#due = performance.now();
    this.#timer = setInterval(() => this.#tick(), PIECE_MS / 2);
  }

  off() {
    clearInterval(this.#timer);
  }

  /** Whether all that was said has been sent. */
  get quiet() {
    return this.#said.length === 0;
  }

  say(pcm) {
    this.#said = Buffer.concat([this.#said, pcm]);
  }

  #tick() {
    // By the clock: a timer that comes late must not slow the voice down.
    const now = performance.now();
    for (; this.#due <= now; this.#due += PIECE_MS) {
      const size = PIECE_MS * BYTES_PER_MS;
      const piece = Buffer.alloc(size);
      this.#said.copy(piece, 0, 0, size);
      this.#said = this.#said.subarray(Math.min(size, this.#said.length));
      this.send(piece);
    }
  }
}

/** All that came, in order, and waiting for what is to come. */
export class Events {
  all = [];
  #waiting = new Set();

  add(event) {
    this.all.push(event);
    for (const look of this.#waiting) look();
  }

  get count() {
    return this.all.length;
  }

  /** The first event from an index on that is of a type and fits. */
  async next(type, from = 0, fits = () => true) {
    const find = () =>
      this.all.find((event, index) => index >= from && event.type === type && fits(event));
    const found = find();
    if (found) return found;
    return new Promise((resolve, reject) => {
      const look = () => {
        const event = find();
        if (event) done(resolve, event);
      };
      const late = setTimeout(() => {
        const seen = this.all.slice(from).map((event) => event.type);
        done(reject, new Error(`no ${type} came; instead ${runs(seen)}`));
      }, WAIT_MS);
      const done = (settle, value) => {
        clearTimeout(late);
        this.#waiting.delete(look);
        settle(value);
      };
      this.#waiting.add(look);
    });
  }

  of(type, from = 0) {
    return this.all.slice(from).filter((event) => event.type === type);
  }
}

/** Types in order; deltas that follow each other count as one. */
function runs(types) {
  const kinds = types.map((type) => (type.endsWith('.delta') ? 'deltas' : type));
  return kinds.filter((kind, index) => kind !== 'deltas' || kinds[index - 1] !== kind).join(', ');
}

/** A reply is whole; the embedded model may also come to the end of what it is allowed to say. */
export function isWhole({ status, status_details: why }) {
  const full = status === 'incomplete' && why.reason === 'max_output_tokens';
  return status === 'completed' || (full && !job.scripted);
}

/** A reply that somebody spoke over from an event on: it has stopped, or was all there before. */
export function checkStopped(events, responseId, cut, audio) {
  const done = events.all.findIndex(
    (event) => event.type === 'response.done' && event.response.id === responseId,
  );
  const { status, status_details: why } = events.all[done].response;
  const stopped = status === 'cancelled' && why.reason === 'turn_detected';
  check(stopped || done < cut, `the reply ended as ${status}, ${JSON.stringify(why)}`);
  const late = events.of(audio, cut);
  check(late.every((event) => event.response_id !== responseId), 'old audio came late');
}

/** The types of server events that `openai` declares in a file of its TypeScript types. */
export function declaredEvents(path) {
  const source = readFileSync(new URL(path, import.meta.resolve('openai')), 'utf8');
  const [, union] = source.match(/export type RealtimeServerEvent =([^;]+);/);
  const kinds = new Set();
  for (const part of union.split('|').map((each) => each.trim())) {
    const name = part.split('.').at(-1);
    const found = source.match(
      new RegExp(`^( *)(?:export )?interface ${name} \\{\\n([\\s\\S]*?)^\\1\\}`, 'm'),
    );
    check(found, `${path} declares no ${name}`);
    const [, indent, members] = found;
    kinds.add(members.match(new RegExp(`^${indent} {4}type: '([a-z_.]+)';`, 'm'))[1]);
  }
  check(kinds.has('session.created'), `no event types found in ${path}`);
  return kinds;
}

/** What was tried and how it went; anything the client complains about is an error. */
class Report {
  features = {};
  errors = [];

  constructor() {
    for (const level of ['warn', 'error']) {
      console[level] = (...told) => this.error(`console.${level}: ${told.map(text).join(' ')}`);
    }
    process.on('uncaughtException', (error) => this.error(`uncaught: ${text(error)}`));
    process.on('unhandledRejection', (error) => this.error(`unhandled: ${text(error)}`));
    process.on('warning', (warning) => this.error(`warning: ${text(warning)}`));
  }

  error(what) {
    this.errors.push(what.slice(0, 2_000));
  }

  /** Tries every feature in its order; `steps` has a method for each. */
  async conversation(steps) {
    await this.feature('connect', () => steps.connect());
    await this.feature('configure', () => steps.configure());
    await this.feature('spoken turn', () => steps.spokenTurn());
    await this.feature('transcription', () => steps.transcription());
    await this.feature('text turn', () => steps.textTurn());
    await this.feature('tool call', () => steps.toolCall());
    await this.feature('interruption', () => steps.interruption());
    await this.feature('truncation', () => steps.truncation());
    await this.feature('end', () => steps.end());
  }

  async feature(name, run) {
    try {
      await run();
      this.features[name] = 'ok';
    } catch (error) {
      this.features[name] = text(error).slice(0, 2_000);
    }
  }

  print() {
    const told = { features: this.features, errors: this.errors };
    process.stdout.write(`${JSON.stringify(told)}\n`, () => process.exit(0));
  }
}

function text(value) {
  if (typeof value === 'string') return value;
  // Events of sockets have a message too, and show nothing else as JSON.
  if (value?.message) return `${value.name ?? value.type}: ${value.message}`;
  return JSON.stringify(value) ?? String(value);
}

export const report = new Report();

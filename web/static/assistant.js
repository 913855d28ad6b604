/**
 * The conversation's conductor: joins socket, microphone, loudspeaker and the turn log.
 *
 * Everything a person can do is a method here; everything that differs afterwards is announced by
 * `onChange`. It touches no document, so tests drive it with made-up parts.
 */
import { AudioFormat } from "./audio-format.js";
import { Conversation } from "./conversation.js";
import { ReplySound } from "./reply-sound.js";
import { StreamClock } from "./audio-in.js";
import { sessionFields, voiceFields } from "./settings.js";

/** A shorter press is a slip, in frames of 20 ms. */
const LEAST_HELD_FRAMES = 8;

/** The longest press, in frames: two minutes, should a release get lost. */
const MOST_HELD_FRAMES = 6000;

/** Letters of one typed message. */
const MAX_MESSAGE = 4000;

const SILENT_FRAME = new Int16Array(480);

const LINK_STATUS = {
  closed: "idle",
  connecting: "connecting",
  loading: "loading",
  lost: "disconnected",
  gone: "disconnected",
};

const TOLD_STATES = new Set(["loading", "lost", "gone"]);

/** Server errors that need no word to the person. */
const QUIET_ERRORS = new Set([
  "response_cancel_not_active",
  "input_audio_buffer_commit_empty",
  "item_truncate_invalid_item_id",
]);

export class Assistant {
  /**
   * @param {object} options
   * @param {object} options.settings as settings.js gives them
   * @param {() => void} options.onChange something to show has changed
   * @param {(code: string, detail?: object) => void} options.onNotice a message for the person;
   *   "clear" takes the last one back, or only one of `detail.family`
   * @param {(side: "mic"|"reply", level: number) => void} options.onLevel loudness, 0..1
   * @param {(handlers: object) => object} options.makeLink
   * @param {(handlers: object) => object} options.makeMicrophone
   * @param {(handlers: object) => object} options.makePlayer
   * @param {(kind: string, fields: object) => void} [options.onTrace] what the debug panel shows:
   *   "chunk" {ms}, "buffer" {id, ms, gaps, gapMs}, "first" {ms} from the end of speech to the first
   *   sound, "cut" {}, and "metrics" with antiphon.response.metrics
   * @param {() => Promise<AudioContext>} options.makeContext with both worklets loaded
   * @param {() => Promise<"opus"|"pcm16"|null>} [options.chooseFormat] how audio is to travel, where
   *   the server offers it
   * @param {(call: () => void, ms: number) => unknown} [options.later] starts a timer
   */
  constructor({ settings, onChange, onNotice, onLevel, onTrace = () => {}, ...make }) {
    this.settings = settings;
    this.onChange = onChange;
    this.onNotice = onNotice;
    this.onLevel = onLevel;
    this.onTrace = onTrace;
    this.makeContext = make.makeContext;
    this.conversation = new Conversation();
    this.clock = new StreamClock();
    this.session = null;
    this.context = null;
    this.muted = false;
    this.held = false;
    this.heldFrames = 0;
    this.openingMicrophone = false;
    this.wantsResponse = false;
    this.pendingText = null;
    this.sent = 0;
    this.format = new AudioFormat({
      choose: make.chooseFormat ?? (async () => null),
      ask: (session) => this.#ask("audio", session),
      use: (format) => this.link.useFormat(format),
    });
    this.link = make.makeLink({
      onState: (state, detail) => this.#linkState(state, detail),
      onEvent: (event) => this.#event(event),
      onTrouble: () => this.format.fallBack(),
    });
    this.microphone = make.makeMicrophone({
      onFrame: (samples, level, time) => this.#frame(samples, level, time),
      onLost: () => this.#microphoneLost(),
    });
    this.sound = new ReplySound({
      conversation: this.conversation,
      makePlayer: make.makePlayer,
      now: () => this.#now(),
      onReport: (event) => this.#report(event),
      onCut: (itemId, heardMs) => this.#truncate(itemId, heardMs),
      onLevel: (level) => onLevel("reply", level),
      onTrace,
      onChange,
      later: make.later,
    });
  }

  /** idle, connecting, loading, listening, hearing, thinking, speaking or disconnected */
  get status() {
    return LINK_STATUS[this.link.state] ?? this.conversation.activity;
  }

  get isOpen() {
    return this.link.state === "open";
  }

  /** Whether Interrupt would do something. */
  get canInterrupt() {
    return this.isOpen && ["thinking", "speaking"].includes(this.conversation.turns.at(-1)?.reply?.status);
  }

  /** The voices the server offers, and its own choice. */
  get voices() {
    const names = this.session?.antiphon?.voices;
    return { names: Array.isArray(names) ? names : [], usual: this.usualVoice ?? "" };
  }

  /** Connects; call from a click, or the browser keeps sound and microphone shut. */
  async start({ microphone = true } = {}) {
    this.onNotice("clear");
    if (!(await this.#openSound())) return;
    this.link.open();
    if (microphone) await this.openMicrophone();
  }

  /** Ends the conversation and lets go of the microphone. */
  stop() {
    this.#release();
    this.microphone.close();
    this.sound.drop();
    this.conversation.breakOff(null);
    this.link.close();
    this.context?.suspend();
    this.pendingText = null;
    this.onNotice("clear");
    this.onChange();
  }

  /** Opens the microphone, or says why not. Typing works without. */
  async openMicrophone() {
    if (this.openingMicrophone) return;
    this.openingMicrophone = true;
    this.onChange();
    try {
      await this.microphone.open(this.context, this.settings);
      this.muted = false;
      this.onNotice("clear", { family: "microphone-" });
    } catch (error) {
      this.onNotice(`microphone-${error.code ?? "failed"}`);
    } finally {
      this.openingMicrophone = false;
      this.onChange();
    }
  }

  /** Goes on listening, or stops it, without ending the conversation. */
  toggleMute() {
    this.muted = !this.muted;
    this.onLevel("mic", 0);
    this.onChange();
  }

  /** Lets a suspended context sound again; call from any gesture. */
  wake() {
    if (this.isOpen && this.context?.state !== "running") this.context?.resume();
  }

  /** Cuts the reply off. */
  interrupt() {
    if (!this.canInterrupt) return;
    this.wantsResponse = false;
    this.#cancel();
    this.onChange();
  }

  /** The talk button or space bar went down, in hold mode. */
  press() {
    if (this.held || !this.isOpen || !this.microphone.isOpen) return;
    this.held = true;
    this.heldFrames = 0;
    this.wantsResponse = false;
    this.#cancel();
    this.link.send({ type: "input_audio_buffer.clear" });
    for (const { samples, time } of this.microphone.takePreRoll()) this.#send(samples, time);
    this.conversation.pressed();
    this.onChange();
  }

  /** It came up again: what was said is sent off. */
  release() {
    if (this.held) this.#release();
    this.onChange();
  }

  /** Sends a typed message; connects first when needed. */
  async sendText(text) {
    const message = text.trim().slice(0, MAX_MESSAGE);
    if (!message) return;
    if (this.isOpen) {
      this.#sendMessage(message);
      return;
    }
    this.pendingText = message;
    if (this.link.state !== "connecting" && this.link.state !== "loading") {
      await this.start({ microphone: false });
    }
  }

  /** Takes changed settings and applies what can be applied now. */
  apply(settings) {
    const before = this.settings;
    this.settings = settings;
    if (before.mode !== settings.mode && this.held) this.#release();
    if (this.isOpen) this.#update(before);
    if (before.echoCancellation !== settings.echoCancellation && this.microphone.isOpen) {
      this.openMicrophone();
    }
    this.onChange();
  }

  /** Facts for tests and curious people. */
  facts() {
    return {
      status: this.status,
      session: this.session,
      microphone: this.microphone.isOpen,
      muted: this.muted,
      playback: { ...this.sound.facts },
      traffic: { ...this.link.traffic },
      turns: this.conversation.turns.map(turnFacts),
    };
  }

  async #openSound() {
    try {
      this.context ??= await this.makeContext();
      await this.format.prepare();
    } catch (error) {
      this.onNotice(error.code === "insecure" ? "microphone-insecure" : "sound-failed");
      return false;
    }
    this.sound.open(this.context);
    this.context.resume();
    return true;
  }

  #linkState(state, detail) {
    if (state === "lost" || state === "gone") {
      this.sound.drop();
      this.held = false;
      this.conversation.breakOff("The connection was lost here. What follows is a new conversation.");
    }
    if (TOLD_STATES.has(state)) this.onNotice(`link-${state}`, detail);
    else this.onNotice("clear", { family: "link-" });
    this.onChange();
  }

  #event(event) {
    if (event.type === "response.output_audio.delta") this.sound.push(event);
    else this.conversation.handle(event);
    ON_EVENT.get(event.type)?.(this, event);
    this.onChange();
  }

  /** A session is there: nothing of an earlier one counts. */
  greet(session) {
    this.session = session;
    this.usualVoice = voiceName(session);
    this.usualInstructions = session.instructions;
    this.clock.reset();
    this.sound.reset();
    this.wantsResponse = false;
    this.#update(null);
    this.format.greet(session);
    if (this.pendingText !== null) this.#sendMessage(this.pendingText);
    this.pendingText = null;
  }

  /** The person's speech cuts in, unless the server is to decide that first. */
  speechStarted() {
    const detection = this.session?.audio?.input?.turn_detection;
    if (detection?.interrupt_response === false || detection?.interruption === "confirmed") return;
    this.sound.cut();
  }

  speechStopped({ item_id: itemId, audio_end_ms: endMs }) {
    // The position includes the silence that was waited for.
    const detection = this.session?.audio?.input?.turn_detection;
    const silence = detection?.silence_duration_ms ?? this.settings.silenceMs;
    const at = this.clock.timeAt(endMs - silence) ?? this.#now();
    this.conversation.speechEnded(itemId, at);
  }

  responseDone({ response }) {
    for (const item of response.output ?? []) this.sound.finish(item.id);
    if (response.status === "cancelled" && response.id === this.sound.soundingResponse) this.sound.cut();
    if (response.status === "failed") this.onNotice("reply-failed");
    if (this.wantsResponse) this.#askForResponse();
  }

  /** The session is as the server says now; audio goes out as it was agreed. */
  updated(session) {
    this.session = { ...this.session, ...session };
    this.format.updated(this.session);
  }

  serverError({ error }) {
    const from = error?.event_id ?? "";
    if (from.startsWith("audio_")) {
      this.format.fallBack();
      return;
    }
    if (QUIET_ERRORS.has(error?.code) || from.startsWith("truncate_")) return;
    if (error?.code === "conversation_already_has_active_response") {
      this.wantsResponse = true;
      return;
    }
    if (from.startsWith("create_")) this.conversation.refused();
    if (error?.code === "cannot_update_voice") this.onNotice("voice-later");
    else this.onNotice("server-error", { message: String(error?.message ?? "") });
  }

  #frame(samples, level, time) {
    this.onLevel("mic", this.muted ? 0 : level);
    if (!this.isOpen) return;
    if (this.settings.mode === "open") {
      // Silence, not nothing: the server's clock counts samples, and ends the turn by them.
      this.#send(this.muted ? SILENT_FRAME : samples, time);
    } else if (this.held) {
      this.heldFrames += 1;
      this.microphone.takePreRoll();
      this.#send(samples, time);
      if (this.heldFrames >= MOST_HELD_FRAMES) this.#release();
    }
  }

  #send(samples, time) {
    if (this.link.sendAudio(samples)) this.clock.sent(time);
  }

  #release() {
    if (!this.held) return;
    this.held = false;
    const enough = this.heldFrames >= LEAST_HELD_FRAMES;
    this.conversation.released(this.#now(), enough);
    if (enough) {
      this.link.send({ type: "input_audio_buffer.commit" });
      this.#askForResponse();
    } else {
      this.link.send({ type: "input_audio_buffer.clear" });
      this.onNotice("held-too-short");
    }
  }

  #microphoneLost() {
    if (this.held) this.#release();
    this.onNotice("microphone-lost");
    this.onChange();
  }

  #sendMessage(text) {
    this.#cancel();
    const id = `item_${randomId()}`;
    this.conversation.typed(id, text, this.#now());
    const content = [{ type: "input_text", text }];
    this.link.send({
      type: "conversation.item.create",
      item: { id, type: "message", role: "user", content },
    });
    this.#askForResponse();
    this.onChange();
  }

  /** Asks now, or as soon as the response that still runs has ended. */
  #askForResponse() {
    this.wantsResponse = Boolean(this.conversation.activeReply);
    if (this.wantsResponse) return;
    this.link.send({ type: "response.create", event_id: this.#eventId("create") });
  }

  #cancel() {
    const reply = this.conversation.activeReply;
    if (reply) this.link.send({ type: "response.cancel", response_id: reply.responseId });
    this.sound.cut();
  }

  #truncate(itemId, heardMs) {
    this.link.send({
      type: "conversation.item.truncate",
      event_id: this.#eventId("truncate"),
      item_id: itemId,
      content_index: 0,
      audio_end_ms: Math.floor(heardMs),
    });
  }

  #report(event) {
    // Any other server would answer with an error.
    if (this.session?.antiphon) this.link.send(event);
  }

  #ask(kind, session) {
    this.link.send({ type: "session.update", event_id: this.#eventId(kind), session });
  }

  #update(before) {
    const { settings, usualInstructions } = this;
    const fields = sessionFields(settings, usualInstructions);
    const session = JSON.stringify(fields);
    if (before === null || session !== JSON.stringify(sessionFields(before, usualInstructions))) {
      this.link.send({ type: "session.update", session: fields });
    }
    const voice = settings.voice || this.usualVoice;
    const known = before === null ? this.usualVoice : before.voice || this.usualVoice;
    if (voice && voice !== known) {
      this.link.send({ type: "session.update", session: voiceFields(voice) });
    }
  }

  #eventId(kind) {
    this.sent += 1;
    return `${kind}_${this.sent}`;
  }

  /** Seconds of the context's clock, which worklet times share. */
  #now() {
    return this.context?.currentTime ?? 0;
  }
}

const ON_EVENT = new Map(Object.entries({
  "session.created": (assistant, event) => assistant.greet(event.session),
  "session.updated": (assistant, event) => assistant.updated(event.session),
  "input_audio_buffer.speech_started": (assistant) => assistant.speechStarted(),
  "input_audio_buffer.speech_stopped": (assistant, event) => assistant.speechStopped(event),
  "response.output_audio.done": (assistant, event) => assistant.sound.finish(event.item_id),
  "response.done": (assistant, event) => assistant.responseDone(event),
  "antiphon.output_audio_buffer.ducked": (assistant) => assistant.sound.duck(true),
  "antiphon.output_audio_buffer.resumed": (assistant) => assistant.sound.duck(false),
  "antiphon.response.metrics": (assistant, event) => assistant.onTrace("metrics", event),
  error: (assistant, event) => assistant.serverError(event),
}));

function voiceName(session) {
  const voice = session.audio?.output?.voice;
  return typeof voice === "string" ? voice : (voice?.id ?? "");
}

function randomId() {
  const letters = "abcdefghijklmnopqrstuvwxyz0123456789";
  const bytes = crypto.getRandomValues(new Uint8Array(21));
  return Array.from(bytes, (byte) => letters[byte % letters.length]).join("");
}

function turnFacts({ user, reply }) {
  return {
    user: user ? user.text : null,
    reply: reply ? reply.text : null,
    heardWords: reply ? reply.heard : 0,
    latencyMs: reply ? reply.latencyMs : null,
    interrupted: reply ? reply.interrupted : false,
  };
}

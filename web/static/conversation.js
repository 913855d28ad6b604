/**
 * The conversation as the page shows it: events in, turns out.
 *
 * Pure: no clock, socket, audio or document. Server events go to `handle`; what the page itself
 * does and hears goes to the other methods. `turns` is the view model; `changed` names the turns
 * that differ since `takeChanged` was last called.
 */
import { Words } from "./words.js";

/** Turns kept; older ones leave the log. */
const MAX_TURNS = 200;

/** Letters kept of what a person says in one turn. */
const MAX_TEXT = 20000;

/** The parts of antiphon.metrics, in the order they happen. */
export const STAGES = [
  ["endpointing_ms", "End of speech noticed"],
  ["recognition_ms", "Speech recognised"],
  ["first_token_ms", "First word of the reply"],
  ["first_clause_ms", "First clause"],
  ["talker_ms", "Voice"],
  ["code2wav_ms", "Sound"],
];

class Turn {
  constructor(number) {
    this.number = number;
    /** @type {null|{itemId: string|null, text: string, status: string, typed: boolean}} */
    this.user = null;
    /** @type {Reply|null} */
    this.reply = null;
    this.endedAt = null;
    this.unanswered = false;
    this.removed = false;
    this.divider = null;
  }
}

class Reply {
  constructor(responseId) {
    this.responseId = responseId;
    /** thinking, speaking, done, interrupted or failed */
    this.status = "thinking";
    this.active = true;
    this.items = [];
    this.heard = 0;
    this.begun = 0;
    this.cutMs = null;
    this.latencyMs = null;
    this.split = null;
    this.message = null;
  }

  get interrupted() {
    return this.status === "interrupted";
  }

  get words() {
    return this.items.flatMap((item) => item.words.list);
  }

  get text() {
    return this.items.map((item) => item.words.text).join(" ").trim();
  }
}

function emptyItem(id) {
  return { id, words: new Words(), playedMs: 0, audioMs: 0, done: false };
}

export class Conversation {
  constructor() {
    this.turns = [];
    this.changed = new Set();
    this.count = 0;
    this.userSpeaking = false;
    this.soundingItem = null;
  }

  /** @returns {Set<Turn>} the turns that differ since the last call */
  takeChanged() {
    const changed = this.changed;
    this.changed = new Set();
    return changed;
  }

  /** hearing, thinking, speaking or listening */
  get activity() {
    if (this.userSpeaking) return "hearing";
    if (this.soundingItem !== null) return "speaking";
    const last = this.turns.at(-1);
    if (last?.reply?.status === "thinking") return "thinking";
    // A sound without words may get no reply at all.
    const wordless = last?.user?.status === "done" && !last.user.text;
    return last && awaitsReply(last) && !wordless ? "thinking" : "listening";
  }

  /** The reply that is still being made, or undefined. */
  get activeReply() {
    return this.turns.findLast((turn) => turn.reply?.active)?.reply;
  }

  /** Whether audio of this response must not be played any more. */
  isCut(responseId) {
    const reply = this.#reply(responseId);
    return !reply || reply.interrupted;
  }

  /** Applies one server event; types it does not know change nothing. */
  handle(event) {
    const name = HANDLERS.get(event.type);
    if (name) this[name](event);
  }

  /** A new session begins; what was open will not be finished. */
  breakOff(label) {
    this.userSpeaking = false;
    this.soundingItem = null;
    for (const turn of this.turns) this.#close(turn);
    const last = this.turns.at(-1);
    if (last && label) {
      last.divider = label;
      this.changed.add(last);
    }
  }

  /** The person typed a message; `itemId` is the id it was sent under. */
  typed(itemId, text, at) {
    const turn = this.#add();
    turn.user = { itemId, text: text.slice(0, MAX_TEXT), status: "done", typed: true };
    turn.endedAt = at;
  }

  /** The person pressed the button to speak. */
  pressed() {
    this.userSpeaking = true;
    const turn = this.#add();
    turn.user = { itemId: null, text: "", status: "speaking", typed: false };
  }

  /** The person let go; `sent` is false when there was too little to send. */
  released(at, sent) {
    this.userSpeaking = false;
    const turn = this.turns.findLast((one) => one.user?.status === "speaking");
    if (!turn) return;
    if (!sent) {
      this.#remove(turn);
      return;
    }
    turn.user.status = "transcribing";
    this.#ended(turn, at);
  }

  /** Own speech of the turn with this item ended at `at` (any clock that `started` shares). */
  speechEnded(itemId, at) {
    const turn = this.#userTurn(itemId);
    if (turn) this.#ended(turn, at);
  }

  /**
   * The first sample of an item was played at `at`.
   * @returns {number|null} the latency in ms, where that is known by this item
   */
  started(itemId, at) {
    this.soundingItem = itemId;
    const turn = this.#replyTurn(itemId);
    if (!turn || turn.reply.interrupted) return null;
    const { reply } = turn;
    if (reply.status === "thinking" || reply.status === "done") reply.status = "speaking";
    this.changed.add(turn);
    if (reply.latencyMs !== null || turn.endedAt === null) return null;
    reply.latencyMs = Math.max(0, Math.round((at - turn.endedAt) * 1000));
    return reply.latencyMs;
  }

  /** So much of an item has been heard. */
  heard(itemId, playedMs) {
    const turn = this.#replyTurn(itemId);
    if (!turn || turn.reply.interrupted) return;
    const item = turn.reply.items.find((one) => one.id === itemId);
    item.playedMs = Math.max(item.playedMs, playedMs);
    this.#count(turn);
  }

  /** An item was played to its end. */
  ended(itemId) {
    if (this.soundingItem === itemId) this.soundingItem = null;
    const turn = this.#replyTurn(itemId);
    if (!turn || turn.reply.interrupted) return;
    const item = turn.reply.items.find((one) => one.id === itemId);
    item.playedMs = Infinity;
    this.#count(turn);
    this.#settle(turn);
  }

  /** Playback of the reply was cut off after `playedMs` of this item. */
  cut(itemId, playedMs) {
    const turn = this.#replyTurn(itemId);
    if (this.soundingItem === itemId) this.soundingItem = null;
    if (!turn) return;
    const item = turn.reply.items.find((one) => one.id === itemId);
    item.playedMs = playedMs;
    turn.reply.cutMs = Math.round(playedMs);
    turn.reply.status = "interrupted";
    this.#count(turn);
    // A word that was broken off is not heard: the server forgets it too.
    turn.reply.begun = turn.reply.heard;
  }

  /** Gives up the reply being made, sounding or not; its further audio and text are refused. */
  interrupt() {
    this.soundingItem = null;
    for (const turn of this.turns) {
      const reply = turn.reply;
      if (reply?.status !== "thinking" && reply?.status !== "speaking") continue;
      reply.status = "interrupted";
      reply.begun = reply.heard;
      this.changed.add(turn);
    }
  }

  /** The last turn will get no reply. */
  refused() {
    const last = this.turns.at(-1);
    if (last && !last.reply) last.unanswered = true;
  }

  onSpeechStarted({ item_id: itemId }) {
    this.userSpeaking = true;
    const turn = this.#userTurn(itemId) ?? this.#add();
    turn.user ??= { itemId, text: "", status: "speaking", typed: false };
    turn.user.status = "speaking";
    this.changed.add(turn);
  }

  onSpeechStopped({ item_id: itemId }) {
    this.userSpeaking = false;
    const turn = this.#userTurn(itemId);
    if (!turn) return;
    turn.user.status = "transcribing";
    this.changed.add(turn);
  }

  onCommitted({ item_id: itemId }) {
    this.userSpeaking = false;
    if (this.#userTurn(itemId)) return;
    const held = this.turns.find((turn) => turn.user && turn.user.itemId === null);
    const turn = held ?? this.#add();
    turn.user ??= { itemId, text: "", status: "transcribing", typed: false };
    turn.user.itemId = itemId;
    this.changed.add(turn);
  }

  onTranscriptDelta({ item_id: itemId, delta }) {
    const turn = this.#userTurn(itemId);
    if (!turn || turn.user.status === "done") return;
    turn.user.text = (turn.user.text + (delta ?? "")).slice(0, MAX_TEXT);
    this.changed.add(turn);
  }

  onTranscript({ item_id: itemId, transcript }) {
    const turn = this.#userTurn(itemId);
    if (!turn) return;
    turn.user.text = (transcript ?? "").trim().slice(0, MAX_TEXT);
    turn.user.status = "done";
    this.changed.add(turn);
  }

  onTranscriptFailed({ item_id: itemId }) {
    const turn = this.#userTurn(itemId);
    if (!turn) return;
    turn.user.status = "failed";
    this.changed.add(turn);
  }

  onResponseCreated({ response }) {
    if (this.#reply(response.id)) return;
    const open = this.turns.findLast(awaitsReply);
    const turn = open ?? this.#add();
    turn.reply = new Reply(response.id);
    this.changed.add(turn);
  }

  onItemAdded({ response_id: responseId, item }) {
    if (item?.type === "message") this.#item(responseId, item.id);
  }

  onReplyDelta({ response_id: responseId, item_id: itemId, delta }) {
    this.#withItem(responseId, itemId, (item) => item.words.append(delta ?? ""));
  }

  onReplyText({ response_id: responseId, item_id: itemId, transcript, text }) {
    this.#withItem(responseId, itemId, (item) => item.words.finish(transcript ?? text));
  }

  onWord({ response_id: responseId, item_id: itemId, word, start_ms: from, end_ms: to }) {
    this.#withItem(responseId, itemId, (item) => item.words.time(String(word), from, to));
  }

  onAudio({ response_id: responseId, item_id: itemId, ms }) {
    this.#withItem(responseId, itemId, (item) => {
      item.audioMs += ms;
    });
  }

  onAudioDone({ response_id: responseId, item_id: itemId }) {
    this.#withItem(responseId, itemId, (item) => {
      item.done = true;
      item.words.setAudioMs(item.audioMs);
    });
  }

  onMetrics(event) {
    const turn = this.turns.find((one) => one.reply?.responseId === event.response_id);
    if (!turn) return;
    const parts = STAGES.map(([key, label]) => ({ key, label, ms: positive(event[key]) }));
    turn.reply.split = { totalMs: positive(event.total_ms), parts };
    this.changed.add(turn);
  }

  onResponseDone({ response }) {
    const turn = this.turns.find((one) => one.reply?.responseId === response.id);
    if (!turn) return;
    const { reply } = turn;
    reply.active = false;
    if (response.status === "failed") {
      reply.status = "failed";
      reply.message = response.status_details?.error?.message ?? null;
    } else if (response.status === "cancelled" && reply.status === "thinking") {
      reply.status = "interrupted";
    }
    this.#settle(turn);
    this.changed.add(turn);
  }

  #close(turn) {
    if (turn.user?.status === "speaking" || turn.user?.status === "transcribing") {
      turn.user.status = turn.user.text ? "done" : "failed";
    }
    if (turn.user && !turn.reply) turn.unanswered = true;
    if (turn.reply && (turn.reply.active || turn.reply.status === "speaking")) {
      turn.reply.active = false;
      turn.reply.status = "interrupted";
      turn.reply.begun = turn.reply.heard;
    }
    this.changed.add(turn);
  }

  #ended(turn, at) {
    turn.endedAt = at;
    this.changed.add(turn);
  }

  #settle(turn) {
    const { reply } = turn;
    if (reply.active || reply.status === "interrupted" || reply.status === "failed") return;
    const allHeard = reply.items.every((item) => item.audioMs === 0 || item.playedMs === Infinity);
    if (allHeard) reply.status = "done";
    this.changed.add(turn);
  }

  #count(turn) {
    const { reply } = turn;
    const heard = sum(reply.items, (item) => wordsOver(item, "heardAt"));
    const begun = sum(reply.items, (item) => wordsOver(item, "begunAt"));
    if (heard === reply.heard && begun === reply.begun) return;
    reply.heard = heard;
    reply.begun = begun;
    this.changed.add(turn);
  }

  #withItem(responseId, itemId, change) {
    const reply = this.#reply(responseId);
    if (!reply || reply.interrupted) return;
    change(this.#item(responseId, itemId));
    const turn = this.turns.find((one) => one.reply === reply);
    this.#count(turn);
    this.changed.add(turn);
  }

  #item(responseId, itemId) {
    const reply = this.#reply(responseId);
    if (!reply) return null;
    let item = reply.items.find((one) => one.id === itemId);
    if (!item) {
      item = emptyItem(itemId);
      reply.items.push(item);
    }
    return item;
  }

  #reply(responseId) {
    return this.turns.findLast((turn) => turn.reply?.responseId === responseId)?.reply;
  }

  #replyTurn(itemId) {
    return this.turns.findLast((turn) => turn.reply?.items.some((item) => item.id === itemId));
  }

  #userTurn(itemId) {
    return this.turns.findLast((turn) => turn.user && turn.user.itemId === itemId);
  }

  #add() {
    this.count += 1;
    const turn = new Turn(this.count);
    this.turns.push(turn);
    if (this.turns.length > MAX_TURNS) this.#remove(this.turns[0]);
    this.changed.add(turn);
    return turn;
  }

  #remove(turn) {
    this.turns.splice(this.turns.indexOf(turn), 1);
    turn.removed = true;
    this.changed.add(turn);
  }
}

/** Whether a person's turn is complete and nothing answers it yet. */
function awaitsReply(turn) {
  if (turn.reply || turn.unanswered || !turn.user) return false;
  return turn.user.status === "transcribing" || turn.user.status === "done";
}

function wordsOver(item, count) {
  if (item.playedMs === Infinity) return item.words.list.length;
  return item.playedMs > 0 ? item.words[count](item.playedMs) : 0;
}

function sum(list, value) {
  return list.reduce((total, one) => total + value(one), 0);
}

function positive(value) {
  return Number.isFinite(value) && value > 0 ? value : 0;
}

const HANDLERS = new Map(Object.entries({
  "input_audio_buffer.speech_started": "onSpeechStarted",
  "input_audio_buffer.speech_stopped": "onSpeechStopped",
  "input_audio_buffer.committed": "onCommitted",
  "conversation.item.input_audio_transcription.delta": "onTranscriptDelta",
  "conversation.item.input_audio_transcription.completed": "onTranscript",
  "conversation.item.input_audio_transcription.failed": "onTranscriptFailed",
  "response.created": "onResponseCreated",
  "response.output_item.added": "onItemAdded",
  "response.output_audio_transcript.delta": "onReplyDelta",
  "response.output_audio_transcript.done": "onReplyText",
  "response.output_text.delta": "onReplyDelta",
  "response.output_text.done": "onReplyText",
  "response.output_audio.done": "onAudioDone",
  "response.done": "onResponseDone",
  "antiphon.word": "onWord",
  "antiphon.metrics": "onMetrics",
}));

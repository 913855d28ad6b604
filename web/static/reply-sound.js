/** The sound of replies: what comes is played, what was heard is told to whom it concerns. */
import { PlaybackReporter } from "./playback-report.js";

export class ReplySound {
  /**
   * @param {object} parts
   * @param {object} parts.conversation turns that what is heard goes to
   * @param {(handlers: object) => object} parts.makePlayer
   * @param {() => number} parts.now seconds of the audio context's clock
   * @param {(event: object) => void} parts.onReport an antiphon.playback.report event is due
   * @param {(itemId: string, heardMs: number) => void} parts.onCut an item was broken off here
   * @param {(level: number) => void} parts.onLevel loudness, 0..1
   * @param {(kind: string, fields: object) => void} parts.onTrace as the assistant's
   * @param {() => void} parts.onChange something to show has changed
   * @param {(call: () => void, ms: number) => unknown} [parts.later] starts a timer
   */
  constructor({ conversation, makePlayer, now, onReport, later, ...handlers }) {
    this.conversation = conversation;
    this.now = now;
    this.handlers = handlers;
    this.facts = { playedMs: 0, bufferedMs: 0, underruns: 0 };
    this.soundingResponse = null;
    this.reporter = new PlaybackReporter(onReport, later);
    this.player = makePlayer({
      onStarted: (id, time) => this.#started(id, time),
      onPosition: (position) => this.#position(position),
      onEnded: (position) => this.#ended(position),
    });
  }

  /** Sounds through this context from now on. */
  open(context) {
    this.player.open(context);
    context.onstatechange = () => this.reporter.running(context.state === "running", this.now());
  }

  /** A new session begins: nothing of an earlier one counts. */
  reset() {
    this.reporter.reset();
  }

  /** Takes audio of a reply, unless that was cut. */
  push({ response_id: responseId, item_id: itemId, samples, ms }) {
    if (this.conversation.isCut(responseId)) return;
    this.handlers.onTrace("chunk", { ms });
    this.conversation.onAudio({ response_id: responseId, item_id: itemId, ms });
    this.reporter.belongs(itemId, responseId);
    this.player.push(itemId, samples);
  }

  /** Says that an item has no more audio. */
  finish(itemId) {
    this.player.finish(itemId);
  }

  /** Lowers or restores the loudness. */
  duck(on) {
    this.player.duck(on);
  }

  /** Silences what nobody is there any more to be told of. */
  drop() {
    this.reporter.reset();
    this.player.clear(() => {});
  }

  /** Silences at once, and tells what was heard. */
  cut() {
    this.conversation.interrupt();
    this.player.clear((items) => {
      if (items.length > 0) this.handlers.onTrace("cut", {});
      for (const item of items) {
        this.conversation.cut(item.id, item.playedMs);
        this.reporter.stopped(item, 0, this.now());
        this.handlers.onCut(item.id, Math.min(item.playedMs, item.receivedMs));
      }
      if (items[0]) this.facts.playedMs = Math.floor(items[0].playedMs);
      this.facts.bufferedMs = 0;
      this.handlers.onLevel(0);
      this.handlers.onChange();
    });
  }

  #started(itemId, time) {
    this.soundingResponse = this.reporter.responses.get(itemId);
    const latencyMs = this.conversation.started(itemId, time);
    if (latencyMs !== null) this.handlers.onTrace("first", { ms: latencyMs });
    this.handlers.onChange();
  }

  #position(position) {
    const { id, playedMs, bufferedMs, underruns, gaps, gapMs } = position;
    this.handlers.onLevel(position.level);
    this.handlers.onTrace("buffer", { id, ms: bufferedMs, gaps, gapMs });
    this.facts.bufferedMs = Math.floor(bufferedMs);
    this.facts.underruns = underruns;
    if (id !== null) this.facts.playedMs = Math.floor(playedMs);
    if (id !== null && playedMs > 0) {
      this.conversation.heard(id, position.heardMs);
      this.reporter.at(position, bufferedMs, this.now());
    }
    this.handlers.onChange();
  }

  #ended(position) {
    this.conversation.ended(position.id);
    this.facts.playedMs = Math.floor(position.playedMs);
    this.soundingResponse = null;
    this.reporter.stopped(position, 0, this.now());
    this.handlers.onLevel(0);
    this.handlers.onChange();
  }
}

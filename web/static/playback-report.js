/** How often the server is told, in seconds. */
const INTERVAL = 0.2;

/** How often it is while the sound is suspended. */
const STANDING_MS = 1000;

/** Items of which it is known whose they are. */
const MAX_ITEMS = 64;

/**
 * Turns positions of items into antiphon.playback.report events of responses.
 *
 * A position is {id, playedMs, gaps, gapMs}, as the playback worklet counts an item.
 */
export class PlaybackReporter {
  /**
   * @param {(event: object) => void} send
   * @param {(call: () => void, ms: number) => unknown} [later] starts a timer
   */
  constructor(send, later = (call, ms) => setTimeout(call, ms)) {
    this.send = send;
    this.later = later;
    this.isRunning = true;
    this.waiting = false;
    this.reset();
  }

  reset() {
    this.last = null;
    this.responses = new Map();
    this.responseId = null;
    this.before = { playedMs: 0, gaps: 0, gapMs: 0 };
    this.sentAt = -Infinity;
  }

  /** Audio of this item belongs to this response. */
  belongs(itemId, responseId) {
    this.responses.set(itemId, responseId);
    if (this.responses.size > MAX_ITEMS) this.responses.delete(this.responses.keys().next().value);
  }

  /** Playback stands here; reports when it is time. `bufferedMs` is still to be played. */
  at(position, bufferedMs, now) {
    this.last = { position, bufferedMs };
    if (now - this.sentAt < INTERVAL) return;
    this.#tell(position, bufferedMs, now);
  }

  /**
   * Says whether the sound runs. While it is suspended no positions come; the server hears once
   * a second where playback stands, so that it holds back.
   */
  running(isRunning, now) {
    this.isRunning = isRunning;
    if (isRunning || this.last === null || this.waiting) return;
    this.#tell(this.last.position, this.last.bufferedMs, now);
    this.waiting = true;
    this.later(() => {
      this.waiting = false;
      this.running(this.isRunning, now);
    }, STANDING_MS);
  }

  #tell(position, bufferedMs, now) {
    const responseId = this.responses.get(position.id);
    if (responseId === undefined) return;
    if (responseId !== this.responseId) {
      this.responseId = responseId;
      this.before = { playedMs: 0, gaps: 0, gapMs: 0 };
    }
    this.sentAt = now;
    const { playedMs, gaps, gapMs } = sum(this.before, position);
    this.send({
      type: "antiphon.playback.report",
      response_id: responseId,
      played_ms: Math.floor(playedMs),
      buffered_ms: Math.floor(bufferedMs),
      underruns: gaps,
      gap_ms: Math.round(gapMs),
    });
  }

  /** An item ended or was cut; reports at once. What comes after it counts on from there. */
  stopped(position, bufferedMs, now) {
    this.last = null;
    this.#tell(position, bufferedMs, now);
    if (this.responses.get(position.id) === this.responseId) this.before = sum(this.before, position);
  }
}

function sum(one, other) {
  return {
    playedMs: one.playedMs + other.playedMs,
    gaps: one.gaps + other.gaps,
    gapMs: one.gapMs + other.gapMs,
  };
}

/** How often the server is told, in seconds. */
const INTERVAL = 0.2;

/** Turns positions of items into antiphon.playback.report events of responses. */
export class PlaybackReporter {
  /** @param {(event: object) => void} send */
  constructor(send) {
    this.send = send;
    this.reset();
  }

  reset() {
    this.responses = new Map();
    this.responseId = null;
    this.beforeMs = 0;
    this.sentAt = -Infinity;
  }

  /** Audio of this item belongs to this response. */
  belongs(itemId, responseId) {
    this.responses.set(itemId, responseId);
    if (this.responses.size > 64) this.responses.delete(this.responses.keys().next().value);
  }

  /** Playback stands here; reports when it is time. */
  at(itemId, playedMs, bufferedMs, now) {
    if (now - this.sentAt < INTERVAL) return;
    this.#report(itemId, playedMs, bufferedMs, now);
  }

  /** An item ended or was cut; reports at once. `bufferedMs` counts what is still to be played. */
  stopped(itemId, playedMs, bufferedMs, now) {
    this.#report(itemId, playedMs, bufferedMs, now);
    if (this.responses.get(itemId) === this.responseId) this.beforeMs += playedMs;
  }

  #report(itemId, playedMs, bufferedMs, now) {
    const responseId = this.responses.get(itemId);
    if (responseId === undefined) return;
    if (responseId !== this.responseId) {
      this.responseId = responseId;
      this.beforeMs = 0;
    }
    this.sentAt = now;
    this.send({
      type: "antiphon.playback.report",
      response_id: responseId,
      played_ms: Math.floor(this.beforeMs + playedMs),
      buffered_ms: Math.floor(bufferedMs),
    });
  }
}

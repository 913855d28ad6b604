/** What the debug panel shows: the last 30 s of a conversation's sound. Pure; `now` is in ms. */

/** Length of the time line. */
export const SPAN_MS = 30000;

/** Points of a kind that are kept; positions come 20 times a second. */
const MAX_POINTS = 1200;

/** Replies in the table. */
const MAX_REPLIES = 5;

/** Audio that comes this soon after other audio was sent with it: packets of one chunk. */
const SAME_CHUNK_MS = 12;

export class Trace {
  constructor() {
    /** Audio that came: {at, ms}. */
    this.chunks = [];
    /** Audio that waited to be played: {at, ms}. */
    this.buffers = [];
    /** Silence inside a reply: {at, from}. */
    this.gaps = [];
    /** First sounds: {at, ms} after the end of speech. */
    this.firsts = [];
    /** Replies that were cut off: {at}. */
    this.cuts = [];
    /** What the server says of replies, newest first. */
    this.replies = [];
    this.item = { id: null, gaps: 0, gapMs: 0 };
    this.underruns = 0;
    this.gapMs = 0;
    this.lastTtfaMs = null;
    this.traffic = { at: null, in: 0, out: 0, inRate: 0, outRate: 0 };
  }

  /** Takes what the assistant tells. */
  take(kind, fields, now) {
    if (kind === "chunk") this.#chunk(fields.ms, now);
    else if (kind === "buffer") this.#buffer(fields, now);
    else if (kind === "first") this.#first(fields.ms, now);
    else if (kind === "cut") keep(this.cuts, { at: now }, now);
    else if (kind === "metrics") this.#reply(fields);
  }

  /** Takes the bytes that went over the socket so far; call it about once a second. */
  bytes({ in: taken, out: given }, now) {
    const { at } = this.traffic;
    const seconds = at === null ? 0 : (now - at) / 1000;
    const rate = (count, before) => (seconds > 0 ? (count - before) / seconds : 0);
    this.traffic = {
      at: now,
      in: taken,
      out: given,
      inRate: rate(taken, this.traffic.in),
      outRate: rate(given, this.traffic.out),
    };
  }

  /** Whether nothing on the time line is younger than its span. */
  isEmpty(now) {
    return [this.chunks, this.buffers, this.gaps, this.firsts, this.cuts]
      .every((points) => points.length === 0 || now - points.at(-1).at > SPAN_MS);
  }

  /** @returns {string} the same in words */
  summary(now) {
    const parts = [
      this.lastTtfaMs === null ? "No reply yet" : `TTFA ${this.lastTtfaMs} ms`,
      `buffered ${seconds(this.buffers.at(-1)?.ms ?? 0)}`,
      this.#underrunText(),
      this.#chunkText(now),
      `in ${rateText(this.traffic.inRate)}, out ${rateText(this.traffic.outRate)}`,
    ];
    return parts.filter(Boolean).join(" · ");
  }

  #underrunText() {
    if (this.underruns === 0) return "no underruns";
    const count = this.underruns === 1 ? "1 underrun" : `${this.underruns} underruns`;
    return `${count}, ${Math.round(this.gapMs)} ms of silence`;
  }

  #chunkText(now) {
    const sizes = this.chunks.filter(({ at }) => now - at <= SPAN_MS).map(({ ms }) => Math.round(ms));
    if (sizes.length === 0) return "";
    const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
    const range = least === most ? `${least}` : `${least}–${most}`;
    return sizes.length === 1 ? `1 chunk of ${range} ms` : `${sizes.length} chunks of ${range} ms`;
  }

  #chunk(ms, now) {
    const last = this.chunks.at(-1);
    if (last && now - last.until <= SAME_CHUNK_MS) {
      last.ms += ms;
      last.until = now;
    } else {
      keep(this.chunks, { at: now, until: now, ms }, now);
    }
  }

  #buffer({ id, ms, gaps, gapMs }, now) {
    keep(this.buffers, { at: now, ms }, now);
    if (id !== this.item.id) this.item = { id, gaps: 0, gapMs: 0 };
    if (gapMs > this.item.gapMs) {
      const silent = gapMs - this.item.gapMs;
      this.gapMs += silent;
      keep(this.gaps, { at: now, from: now - silent }, now);
    }
    this.underruns += Math.max(0, gaps - this.item.gaps);
    this.item = { id, gaps, gapMs };
  }

  #first(ms, now) {
    this.lastTtfaMs = ms;
    keep(this.firsts, { at: now, ms }, now);
  }

  #reply(event) {
    this.replies.unshift(replyCells(event));
    this.replies.length = Math.min(this.replies.length, MAX_REPLIES);
  }
}

/** Heads of the table of replies. */
export const REPLY_HEADS = ["TTFA", "Chunks", "Lead", "Made", "Heard", "Unheard", "Underruns", "Notes"];

/** @returns {string[]} the cells of a reply, from antiphon.response.metrics */
function replyCells(event) {
  const notes = [
    event.interrupted && "cut off",
    event.continuous === false && "not continuous",
    event.reported === false && "estimated",
    event.waited_ms >= 1 && `waited ${whole(event.waited_ms)} ms to begin`,
  ];
  return [
    `${whole(event.ttfa_ms)} ms`,
    chunkCell(event.chunks_ms),
    `${whole(event.lead_min_ms)}–${whole(event.lead_max_ms)} ms`,
    seconds(event.generated_ms),
    seconds(event.played_ms),
    seconds(event.unheard_ms),
    event.underruns > 0 ? `${whole(event.underruns)}, ${whole(event.gap_ms)} ms` : "0",
    notes.filter(Boolean).join(", "),
  ];
}

function chunkCell(sizes) {
  const all = Array.isArray(sizes) ? sizes.map(whole) : [];
  const shown = all.slice(0, 6).join(", ");
  return all.length > 6 ? `${shown}, … (${all.length})` : shown;
}

function whole(value) {
  return Number.isFinite(value) ? Math.round(value) : "?";
}

function seconds(ms) {
  return Number.isFinite(ms) ? `${(ms / 1000).toFixed(1)} s` : "?";
}

function rateText(bytes) {
  return `${(bytes / 1000).toFixed(bytes < 10000 ? 1 : 0)} kB/s`;
}

/** Adds a point, and drops what has left the time line. */
function keep(points, point, now) {
  points.push(point);
  const old = points.findIndex(({ at }) => now - at <= SPAN_MS);
  if (old > 0) points.splice(0, old);
  if (points.length > MAX_POINTS) points.splice(0, points.length - MAX_POINTS);
}

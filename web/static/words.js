/**
 * Joins a reply's transcript with the times of its words.
 *
 * The text arrives in pieces that may end inside a word; the times arrive word by word, before or
 * after the text. Either may be missing altogether.
 */

/** The longest transcript kept, in words. A reply of 4096 tokens stays below. */
const MAX_WORDS = 4000;

/** How far ahead of the last timed word a time may apply, when text and times disagree. */
const WINDOW = 8;

/** Milliseconds a letter takes to say, when the server sends no word times. */
const LETTER_MS = 65;

/** Lower-case letters and digits only: "Hello," and "hello" are one word. */
function normal(text) {
  return text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");
}

export class Words {
  constructor() {
    /** @type {{text: string, from: number, startMs: number|null, endMs: number|null}[]} */
    this.list = [];
    this.text = "";
    this.complete = false;
    this.timed = 0;
    this.pending = [];
    this.sawTimes = false;
    this.audioMs = null;
  }

  /** Appends a piece of the transcript. */
  append(delta) {
    if (this.complete || this.list.length >= MAX_WORDS) return;
    this.text += delta;
    // Only the last word can have grown.
    this.#split(Math.max(0, this.list.length - 1));
  }

  /** Takes the final transcript, which may differ from the pieces. */
  finish(transcript) {
    if (typeof transcript === "string") this.text = transcript;
    this.complete = true;
    this.#split(0);
  }

  /** Takes the time of the next word, in ms of the item's audio. */
  time(text, startMs, endMs) {
    this.sawTimes = true;
    if (this.pending.length < MAX_WORDS) this.pending.push({ text, startMs, endMs });
    this.#match();
  }

  /** Takes the length of the item's whole audio, for words without times. */
  setAudioMs(ms) {
    this.audioMs = ms;
  }

  /** How many words are over at `playedMs`: exactly those whose end has been played. */
  heardAt(playedMs) {
    return this.#countUntil((word, index) => this.#endMs(word, index) <= playedMs);
  }

  /** How many words have begun at `playedMs`. */
  begunAt(playedMs) {
    return this.#countUntil((word, index) => this.#startMs(word, index) < playedMs);
  }

  #countUntil(holds) {
    let low = 0;
    let high = this.list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (holds(this.list[middle], middle)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #startMs(word, index) {
    if (!this.sawTimes) return this.#guessMs(word.from);
    if (word.startMs !== null) return word.startMs;
    return index === 0 ? 0 : this.#endMs(this.list[index - 1], index - 1);
  }

  #endMs(word, index) {
    if (!this.sawTimes) return this.#guessMs(word.from + word.text.length);
    if (word.endMs !== null) return word.endMs;
    // A word that was given no time of its own is over when the next timed one begins.
    for (let next = index + 1; next < this.timed; next += 1) {
      if (this.list[next].startMs !== null) return this.list[next].startMs;
    }
    return this.audioMs ?? Infinity;
  }

  #guessMs(letters) {
    const perLetter = this.audioMs === null || !this.text ? LETTER_MS : this.audioMs / this.text.length;
    return letters * perLetter;
  }

  /** Cuts the text into words anew from word `first` on; words keep their times. */
  #split(first) {
    const start = this.list[first]?.from ?? 0;
    const found = [...this.text.slice(start).matchAll(/\S+/g)].slice(0, MAX_WORDS - first);
    this.list.length = Math.min(this.list.length, first + found.length);
    found.forEach((match, offset) => {
      const place = { text: match[0], from: start + match.index };
      const known = this.list[first + offset];
      if (known) Object.assign(known, place);
      else this.list.push({ ...place, startMs: null, endMs: null });
    });
    this.timed = Math.min(this.timed, this.list.length);
    this.#match();
  }

  #match() {
    while (this.pending.length > 0) {
      const index = this.#find(normal(this.pending[0].text));
      if (index < 0) return;
      const { startMs, endMs } = this.pending.shift();
      this.list[index].startMs = startMs;
      this.list[index].endMs = endMs;
      this.timed = index + 1;
    }
  }

  /** The word a time belongs to, or -1 while its text has not come. */
  #find(wanted) {
    // The last word may still grow, so it counts only when it is the same already.
    const end = Math.min(this.list.length, this.timed + WINDOW);
    for (let index = this.timed; index < end; index += 1) {
      if (normal(this.list[index].text) === wanted) return index;
    }
    const settled = this.list.length - (this.complete ? 0 : 1);
    const known = this.complete || settled - this.timed >= WINDOW;
    return known && this.timed < this.list.length ? this.timed : -1;
  }
}

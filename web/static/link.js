/**
 * Keeps a realtime socket open: waits until the server is ready, opens, reopens after a loss.
 *
 * States: closed, connecting, loading (the server is there, its models are not), open, lost
 * (it will try again by itself) and gone (it will not).
 */
import { RealtimeSocket, socketUrl } from "./protocol.js";

/** Waits before the tries after a loss, in ms; after the last one the person has to ask. */
export const RETRY_MS = [500, 1000, 2000, 4000, 8000, 8000, 8000, 8000];

/** How often a server that still loads is asked. */
const LOADING_POLL_MS = 1500;

/** A server that takes longer than this to answer is not there. */
const ANSWER_MS = 8000;

/** Close codes after which another try would fare no better: replaced, refused. */
const FINAL_CODES = new Set([1008, 4000, 4001, 4003]);

const NOT_READY = 503;
const UNAUTHORIZED = 401;

export class Link {
  /**
   * @param {object} options
   * @param {string} options.base the page's address
   * @param {(state: string, detail: object) => void} options.onState
   * @param {(event: object) => void} options.onEvent server events, from session.created on
   * @param {() => void} [options.onTrouble] Opus did not work in this browser
   * @param {typeof fetch} [options.fetch]
   * @param {typeof WebSocket} [options.Socket]
   * @param {(call: () => void, ms: number) => unknown} [options.later] starts a timer
   */
  constructor({ base, onState, onEvent, onTrouble = () => {}, ...parts }) {
    this.base = base;
    this.onState = onState;
    this.onEvent = onEvent;
    this.onTrouble = onTrouble;
    this.fetch = parts.fetch ?? ((...args) => globalThis.fetch(...args));
    this.Socket = parts.Socket ?? globalThis.WebSocket;
    this.later = parts.later ?? ((call, ms) => setTimeout(call, ms));
    this.key = "";
    this.state = "closed";
    this.socket = null;
    this.failures = 0;
    this.attempt = 0;
    /** Bytes of all sockets so far: of text in UTF-16 units, which are bytes where it is ASCII. */
    this.traffic = { in: 0, out: 0 };
  }

  /** Starts over, whatever the state. */
  open() {
    this.close();
    this.failures = 0;
    this.#set("connecting");
    return this.#try(this.attempt);
  }

  /** Closes and stays closed. */
  close() {
    this.attempt += 1;
    this.socket?.close();
    this.socket = null;
    this.#set("closed");
  }

  send(event) {
    this.socket?.send(event);
  }

  /** @returns {boolean} whether the samples went out */
  sendAudio(samples) {
    return this.state === "open" && this.socket.sendAudio(samples);
  }

  /** How audio is sent from now on; each new socket begins with null. */
  useFormat(format) {
    this.socket?.useFormat(format);
  }

  #set(state, detail = {}) {
    if (state === this.state && state === "closed") return;
    this.state = state;
    this.onState(state, detail);
  }

  async #try(attempt) {
    const readiness = await this.#readiness();
    if (attempt !== this.attempt) return;
    if (readiness.kind === "gone") this.#retry(attempt, {});
    else if (readiness.kind === "loading") {
      this.#set("loading", { stages: readiness.stages });
      this.later(() => this.#again(attempt), LOADING_POLL_MS);
    } else {
      this.#connect(attempt);
    }
  }

  #again(attempt) {
    if (attempt === this.attempt) this.#try(attempt);
  }

  /** Ready also when the server has no such page: any realtime server will do. */
  async #readiness() {
    const answer = await this.#get("readyz");
    if (!answer) return { kind: "gone" };
    if (answer.status !== NOT_READY) return { kind: "ready" };
    const body = await answer.json().catch(() => ({}));
    return { kind: "loading", stages: body?.stages ?? {} };
  }

  async #get(path) {
    const headers = this.key ? { Authorization: `Bearer ${this.key}` } : {};
    const signal = AbortSignal.timeout(ANSWER_MS);
    try {
      return await this.fetch(new URL(path, this.base), { headers, signal, cache: "no-store" });
    } catch {
      return null;
    }
  }

  #connect(attempt) {
    let greeted = false;
    this.socket = new RealtimeSocket(socketUrl(this.base), {
      key: this.key,
      Socket: this.Socket,
      onEvent: (event) => {
        if (!greeted && event.type === "session.created") {
          greeted = true;
          this.failures = 0;
          this.#set("open", { session: event.session });
        }
        this.onEvent(event);
      },
      onClose: (close) => this.#lost(attempt, greeted, close),
      onTrouble: this.onTrouble,
      onBytes: (bytes, way) => {
        this.traffic[way] += bytes;
      },
    });
  }

  async #lost(attempt, greeted, close) {
    if (attempt !== this.attempt) return;
    this.socket = null;
    if (FINAL_CODES.has(close.code)) {
      this.#set("gone", { reason: close.reason, code: close.code });
      return;
    }
    if (!greeted && (await this.#refused())) {
      if (attempt === this.attempt) this.#set("gone", { refused: true, wrong: this.key !== "" });
      return;
    }
    if (attempt === this.attempt) this.#retry(attempt, close);
  }

  /** A refused upgrade looks like any failure; a plain request tells. */
  async #refused() {
    const answer = await this.#get("v1/models");
    return answer?.status === UNAUTHORIZED;
  }

  #retry(attempt, close) {
    const wait = RETRY_MS[this.failures];
    this.failures += 1;
    if (wait === undefined) {
      this.#set("gone", { reason: close.reason ?? "" });
      return;
    }
    this.#set("lost", { retryMs: wait });
    this.later(() => this.#again(attempt), wait);
  }
}

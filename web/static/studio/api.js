/** The server's routes, as far as the studio needs them. */
import { EventStream } from "./event-stream.js";

/** A server that takes longer than this to answer is not there; pictures may go along. */
const ANSWER_MS = 30_000;

/** The server's answer was a refusal, or there was none (`status` 0). */
export class ApiError extends Error {
  /** @param {{status?: number, code?: string, param?: string|null}} facts */
  constructor(message, { status = 0, code = "", param = null } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
  }
}

export class Api {
  /**
   * @param {string} base the page's address
   * @param {typeof fetch} [get]
   */
  constructor(base, get = (...args) => globalThis.fetch(...args)) {
    this.base = base;
    this.fetch = get;
    this.key = "";
  }

  /** @returns {Promise<object[]>} the models' cards */
  async models() {
    return (await this.#json("v1/models")).data;
  }

  /** @returns {Promise<{data: object[], has_more: boolean}>} jobs, the newest first */
  jobs({ after = "", limit = 24, kind = "" } = {}) {
    const query = new URLSearchParams({ limit: String(limit), order: "desc" });
    if (after) query.set("after", after);
    if (kind) query.set("kind", kind);
    return this.#json(`v1/jobs?${query}`);
  }

  /**
   * @param {object} body what is asked for
   * @param {string} key the same for each try, so that a second one makes no second job
   */
  make(body, key) {
    const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
    return this.#json("v1/jobs", { method: "POST", headers, body: JSON.stringify(body) });
  }

  cancel(id) {
    return this.#json(`v1/jobs/${id}/cancel`, { method: "POST" });
  }

  remove(id) {
    return this.#json(`v1/jobs/${id}`, { method: "DELETE" });
  }

  /** @returns {Promise<Blob>} a file of a job */
  async content(id, variant, signal) {
    const answer = await this.#ask(`v1/jobs/${id}/content?variant=${encodeURIComponent(variant)}`, { signal });
    return answer.blob();
  }

  /**
   * What a job does from now on, after one event "open". Not EventSource, which can send no key.
   *
   * @param {string} lastId what was seen last; empty for everything
   * @returns {AsyncGenerator<{name: string, data: object, id: string}>}
   */
  async *events(id, lastId, signal) {
    const headers = lastId ? { "Last-Event-ID": lastId } : {};
    const answer = await this.#ask(`v1/jobs/${id}/events`, { headers, signal });
    yield { name: "open", data: {}, id: "" };
    // 204: it had ended before, and nothing is new.
    if (!answer.body) return;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const stream = new EventStream();
    try {
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        for (const { name, data, id: seen } of stream.push(part.value)) yield { name, data: JSON.parse(data), id: seen };
      }
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  async #json(path, options = {}) {
    const answer = await this.#ask(path, { ...options, signal: AbortSignal.timeout(ANSWER_MS) });
    return answer.json();
  }

  async #ask(path, { headers = {}, ...options }) {
    const said = this.key ? { ...headers, Authorization: `Bearer ${this.key}` } : headers;
    let answer;
    try {
      answer = await this.fetch(new URL(path, this.base), { ...options, headers: said });
    } catch (error) {
      if (options.signal?.aborted && options.signal.reason?.name === "AbortError") throw error;
      throw new ApiError("The server does not answer.");
    }
    if (answer.ok) return answer;
    const told = (await answer.json().catch(() => ({})))?.error ?? {};
    throw new ApiError(told.message ?? answer.statusText, { status: answer.status, code: told.code ?? "", param: told.param });
  }
}

/** @returns {string} a key that no other request has */
export function freshKey(random = globalThis.crypto) {
  // `randomUUID` is there on secure pages only.
  return [...random.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

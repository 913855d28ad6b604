/** How audio travels: agreed with the server, and changed when this browser's Opus fails. */

/** Beside the server bandwidth costs nothing, and a codec does. */
const LOCAL = new Set(["localhost", "127.0.0.1", "[::1]"]);

/**
 * @param {string|null} asked of the page's address: "opus", "pcm" or "json"
 * @param {string} hostname the page's
 * @param {() => Promise<boolean>} offersOpus whether this browser has Opus both ways
 * @returns {Promise<"opus"|"pcm16"|null>} null for base64 in JSON
 */
export async function chooseFormat(asked, hostname, offersOpus) {
  if (asked === "json") return null;
  if (asked === "pcm" || (asked !== "opus" && LOCAL.has(hostname))) return "pcm16";
  return (await offersOpus()) ? "opus" : "pcm16";
}

export class AudioFormat {
  /**
   * @param {object} parts
   * @param {() => Promise<"opus"|"pcm16"|null>} parts.choose what this page would like
   * @param {(session: object) => void} parts.ask sends these session fields
   * @param {(format: "opus"|"pcm16"|null) => void} parts.use sets how audio is sent
   */
  constructor({ choose, ask, use }) {
    this.choose = choose;
    this.ask = ask;
    this.use = use;
    this.wanted = undefined;
  }

  /** Chooses once. */
  async prepare() {
    if (this.wanted === undefined) this.wanted = await this.choose();
  }

  /** A session begins; a server that can do it says so. */
  greet({ antiphon }) {
    if (antiphon && "binary_audio" in antiphon) this.#ask();
  }

  /** The session is as the server says now. */
  updated({ antiphon }) {
    this.use(antiphon?.binary_audio ? this.wanted : null);
  }

  /** Opus does not work, here or at the server: samples do, or else base64. */
  fallBack() {
    if (this.wanted !== "opus") return;
    this.wanted = "pcm16";
    this.#ask();
  }

  /** By itself, since a server that refuses an update changes nothing of it. */
  #ask() {
    if (!this.wanted) return;
    this.ask({ type: "realtime", antiphon: { binary_audio: true, binary_format: this.wanted } });
  }
}

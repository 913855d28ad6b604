/** Reads a stream of server-sent events (HTML standard, 9.2) that came by fetch. */

/** Characters of one line, or of one event, at most: a preview has about 40,000. */
const MOST = 1 << 20;

export class EventStream {
  constructor() {
    this.rest = "";
    this.lastId = "";
    this.#begin();
  }

  /**
   * @param {string} text what came, in whatever pieces
   * @returns {{name: string, data: string, id: string}[]} the events that are complete by now
   * @throws {RangeError} an event is longer than any of ours
   */
  push(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    const events = [];
    for (const line of lines) {
      const event = this.#take(line);
      if (event) events.push(event);
    }
    if (this.rest.length + this.size > MOST) throw new RangeError("an event of the server is too long");
    return events;
  }

  #begin() {
    this.name = "message";
    this.data = [];
    this.size = 0;
  }

  #take(line) {
    if (line === "") return this.#end();
    const [, field, value] = /^([^:]*)(?:: ?(.*))?$/s.exec(line);
    this.size += line.length;
    if (field === "event") this.name = value ?? "";
    else if (field === "data") this.data.push(value ?? "");
    else if (field === "id") this.lastId = value ?? "";
    return null;
  }

  #end() {
    const { name, data } = this;
    this.#begin();
    return data.length > 0 ? { name, data: data.join("\n"), id: this.lastId } : null;
  }
}

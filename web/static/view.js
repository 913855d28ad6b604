/** The conversation log in the document: one element for each side of a turn, updated in place. */
/** Pixels from the end within which the log follows what is added. */
const FOLLOW_PX = 80;

const SVG = "http://www.w3.org/2000/svg";

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  svg.setAttribute("aria-hidden", "true");
  return svg;
}

function side(className, iconName, speaker) {
  const element = make("li", `turn ${className}`);
  const mark = make("span", "mark");
  mark.append(icon(iconName), make("span", "unseen", `${speaker}: `));
  const text = make("p", "text");
  element.append(mark, text);
  return { element, text };
}

/** Changes a text only when it differs, so that a selection in it survives. */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export class LogView {
  /**
   * @param {object} parts
   * @param {HTMLElement} parts.log the list
   * @param {HTMLElement} parts.scroll what scrolls it
   * @param {HTMLElement} parts.latest the button that leads back to the end
   * @param {(text: string) => void} parts.announce says something to a screen reader
   */
  constructor({ log, scroll, latest, announce }) {
    this.log = log;
    this.scroll = scroll;
    this.latest = latest;
    this.announce = announce;
    this.rows = new Map();
    this.following = true;
    scroll.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    latest.addEventListener("click", () => this.toEnd());
  }

  /** Shows the turns that have changed. */
  update(changed) {
    for (const turn of changed) {
      if (turn.removed) this.#remove(turn);
      else this.#show(turn);
    }
    if (changed.size > 0 && this.following) this.toEnd();
    else if (changed.size > 0) this.#scrolled();
  }

  toEnd() {
    this.following = true;
    this.scroll.scrollTop = this.scroll.scrollHeight;
    this.latest.hidden = true;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroll;
    this.following = scrollHeight - scrollTop - clientHeight < FOLLOW_PX;
    this.latest.hidden = this.following;
  }

  #remove(turn) {
    const row = this.rows.get(turn);
    for (const part of ["user", "reply", "divider"]) row?.[part]?.element.remove();
    this.rows.delete(turn);
  }

  #show(turn) {
    let row = this.rows.get(turn);
    if (!row) {
      row = { after: this.log.lastElementChild };
      this.rows.set(turn, row);
    }
    if (turn.user) this.#showUser(row, turn);
    if (turn.reply) this.#showReply(row, turn);
    if (turn.divider) this.#showDivider(row, turn);
  }

  #place(row, element) {
    const last = row.divider ?? row.reply ?? row.user;
    if (last) last.element.after(element);
    else this.log.append(element);
  }

  #showUser(row, { user }) {
    if (!row.user) {
      const part = side("user", "call", "You");
      // The person's side stands first, should it come to light after the reply.
      if (row.reply) row.reply.element.before(part.element);
      else this.#place(row, part.element);
      row.user = part;
    }
    const { element, text } = row.user;
    if (user.status === "done" && element.dataset.status !== "done" && !user.typed && user.text) {
      this.announce(`You said: ${user.text}`);
    }
    element.dataset.status = user.status;
    setText(text, user.text);
  }

  #showReply(row, { reply }) {
    if (!row.reply) {
      const part = { ...side("reply", "response", "Antiphon"), words: [] };
      part.element.dataset.responseId = reply.responseId;
      this.#place(row, part.element);
      row.reply = part;
    }
    const { element } = row.reply;
    if (element.dataset.status !== reply.status) this.#announceReply(reply);
    element.dataset.status = reply.status;
    // A reply that was called off before its first word is no part of the conversation.
    element.hidden = reply.interrupted && reply.words.length === 0;
    this.#showWords(row.reply, reply);
    this.#showProblem(row.reply, reply);
    showTiming(row.reply, reply);
  }

  /** The reply is heard; only its silent fates need saying. */
  #announceReply(reply) {
    const silent = reply.status === "done" && reply.items.every((item) => item.audioMs === 0);
    if (silent) this.announce(`Reply: ${reply.text}`);
    else if (reply.interrupted && reply.heard > 0) this.announce("Reply interrupted");
  }

  #showWords(part, reply) {
    const { words } = reply;
    while (part.words.length > words.length) part.words.pop().remove();
    words.forEach((word, index) => {
      let span = part.words[index];
      if (!span) {
        span = make("span");
        part.words.push(span);
        if (index > 0) part.text.append(" ");
        part.text.append(span);
      }
      setText(span, word.text);
      const look = `word ${wordState(reply, index)}`;
      if (span.className !== look) span.className = look;
    });
  }

  #showProblem(part, reply) {
    if (reply.status !== "failed" || part.problem) return;
    part.problem = make("p", "problem", reply.message ?? "The reply could not be finished.");
    part.element.append(part.problem);
  }

  #showDivider(row, turn) {
    if (row.divider) return;
    const element = make("li", "divider", turn.divider);
    this.#place(row, element);
    row.divider = { element };
  }
}

function wordState(reply, index) {
  if (index < reply.heard) return "heard";
  if (reply.interrupted) return "dropped";
  if (index < reply.begun) return "now";
  // A reply without sound has nothing to wait for.
  return reply.items.every((item) => item.audioMs === 0) && !reply.active ? "heard" : "ahead";
}

/** Latency, its parts, and where the reply was cut, beside the reply. */
function showTiming(part, reply) {
  const { latencyMs, cutMs, split } = reply;
  const key = `${latencyMs} ${cutMs} ${split?.totalMs}`;
  if (part.timingKey === key || (latencyMs === null && cutMs === null)) return;
  part.timingKey = key;
  const open = part.timing?.querySelector("details")?.open ?? false;
  part.timing?.remove();
  part.timing = make("div", "timing");
  if (latencyMs !== null) {
    part.element.dataset.latencyMs = String(latencyMs);
    part.timing.append(split ? details(latencyMs, split, open) : latencyLine("div", latencyMs));
  }
  if (cutMs !== null) {
    part.timing.append(make("span", "cut", `Cut off after ${(cutMs / 1000).toFixed(1)} s`));
  }
  part.element.append(part.timing);
}

function latencyLine(tag, latencyMs) {
  const line = make(tag);
  line.append(make("span", "latency", `${latencyMs} ms`), make("span", "unseen", " until the reply"));
  line.title = "From the end of your speech to the first sound of the reply";
  return line;
}

/** @returns {{label: string, ms: number}[]} the server's stages, then what lies outside of it */
export function timingParts(latencyMs, split) {
  const parts = split.parts.map(({ label, ms }) => ({ label, ms }));
  const known = split.totalMs || parts.reduce((total, { ms }) => total + ms, 0);
  parts.push({ label: "Network and buffer", ms: Math.max(0, latencyMs - known) });
  return parts;
}

function details(latencyMs, split, open) {
  const parts = timingParts(latencyMs, split);
  const element = make("details");
  element.open = open;
  const bar = make("span", "bar");
  const legend = make("ul", "legend");
  parts.forEach(({ label, ms }, index) => {
    const shown = Math.round(ms);
    if (ms > 0) {
      const piece = make("span", `stage-${index}`);
      piece.style.flexGrow = String(ms);
      piece.title = `${label}: ${shown} ms`;
      bar.append(piece);
    }
    legend.append(legendRow(`stage-${index}`, label, shown));
  });
  legend.append(legendRow("", "Heard after", latencyMs));
  const summary = latencyLine("summary", latencyMs);
  summary.append(bar);
  element.append(summary, legend);
  return element;
}

function legendRow(className, label, ms) {
  const row = make("li", className);
  row.append(make("i"), make("span", "", label), make("span", "", `${ms} ms`));
  return row;
}

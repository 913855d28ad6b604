/** The loudspeaker: queues replies' audio in the playback worklet and tells what was heard. */
export class Player {
  /**
   * @param {object} handlers
   * @param {(itemId: string, time: number) => void} handlers.onStarted its first sample is played,
   *   at this time of the context
   * @param {(position: {id: string|null, playedMs: number, heardMs: number, gaps: number,
   *   gapMs: number, bufferedMs: number, underruns: number, level: number}) => void}
   *   handlers.onPosition about every 50 ms; `heardMs` leaves out what is still on its way to the
   *   ear, `gaps` and the silence in them are the item's, `underruns` those of all items
   * @param {(position: {id: string, playedMs: number, gaps: number, gapMs: number}) => void}
   *   handlers.onEnded an item was played to its end
   */
  constructor({ onStarted, onPosition, onEnded }) {
    this.handlers = { onStarted, onPosition, onEnded };
    this.node = null;
    this.context = null;
    this.token = 0;
    this.waiting = new Map();
  }

  /** Connects to the context's output; the playback worklet must be loaded. */
  open(context) {
    if (this.context === context) return;
    this.context = context;
    this.node = new AudioWorkletNode(context, "antiphon-playback", {
      numberOfInputs: 0,
      outputChannelCount: [1],
    });
    this.node.port.onmessage = ({ data }) => this.#take(data);
    this.node.connect(context.destination);
  }

  /** Queues 24 kHz PCM16 of an item; the samples' buffer is given away. */
  push(id, samples) {
    this.node?.port.postMessage({ type: "push", id, samples }, [samples.buffer]);
  }

  /** Says that an item has no more audio. */
  finish(id) {
    this.node?.port.postMessage({ type: "finish", id });
  }

  /** Lowers or restores the loudness. */
  duck(on) {
    this.node?.port.postMessage({ type: "duck", on });
  }

  /**
   * Silences at once.
   * @param {(items: {id: string, playedMs: number, receivedMs: number, gaps: number,
   *   gapMs: number}[]) => void} done what was heard of each item that had not been played to its
   *   end
   */
  clear(done) {
    if (!this.node) {
      done([]);
      return;
    }
    this.token += 1;
    this.waiting.set(this.token, done);
    this.node.port.postMessage({ type: "clear", token: this.token });
  }

  #take(message) {
    if (message.type === "started") this.handlers.onStarted(message.id, message.time);
    else if (message.type === "ended") this.handlers.onEnded(message);
    else if (message.type === "position") this.handlers.onPosition(this.#position(message));
    else if (message.type === "cleared") {
      this.waiting.get(message.token)?.(message.items);
      this.waiting.delete(message.token);
    }
  }

  #position(message) {
    const { outputLatency, baseLatency } = this.context;
    const onTheWayMs = (outputLatency || baseLatency || 0) * 1000;
    return { ...message, heardMs: Math.max(0, message.playedMs - onTheWayMs) };
  }
}

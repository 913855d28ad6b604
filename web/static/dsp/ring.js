/** A bounded first-in-first-out buffer of float samples. */
export class FloatRing {
  /** @param {number} capacity the most samples held */
  constructor(capacity) {
    this.data = new Float32Array(capacity);
    this.head = 0;
    this.length = 0;
  }

  get room() {
    return this.data.length - this.length;
  }

  clear() {
    this.head = 0;
    this.length = 0;
  }

  /**
   * Appends the first `count` samples.
   * @throws {RangeError} when they do not fit; nothing is written then
   */
  write(samples, count = samples.length) {
    if (count > this.room) throw new RangeError(`room for ${this.room} samples, got ${count}`);
    const size = this.data.length;
    const tail = (this.head + this.length) % size;
    const first = Math.min(count, size - tail);
    this.data.set(samples.subarray(0, first), tail);
    if (first < count) this.data.set(samples.subarray(first, count), 0);
    this.length += count;
  }

  /** Takes up to `count` samples into the start of `out`; returns how many. */
  read(out, count = out.length) {
    const taken = Math.min(count, this.length);
    const first = Math.min(taken, this.data.length - this.head);
    out.set(this.data.subarray(this.head, this.head + first));
    if (first < taken) out.set(this.data.subarray(0, taken - first), first);
    this.head = (this.head + taken) % this.data.length;
    this.length -= taken;
    return taken;
  }
}

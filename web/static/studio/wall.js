/** What hangs on the wall: jobs as they were last told, the newest first. Pure state. */

export const ENDED = new Set(["completed", "failed", "cancelled"]);

/** Jobs that the page holds; older ones are there again after a reload. */
export const MOST_JOBS = 2000;

export class Wall {
  constructor() {
    /** Ids, the newest first. */
    this.order = [];
    this.jobs = new Map();
    /** Pictures as they form, by tile, as data URLs. */
    this.previews = new Map();
    /** When a job was first seen waiting, in the page's own milliseconds. */
    this.waitingSince = new Map();
    /** Jobs that were told to stop, and do so at their next step. */
    this.stopping = new Set();
  }

  /** A job that was made just now, or told of; `now` in milliseconds. */
  put(job, now, { older = false } = {}) {
    const known = this.jobs.get(job.id);
    // What is told on two ways may come in another order.
    if (known && (known.version ?? 0) > (job.version ?? 0)) return;
    this.jobs.set(job.id, job);
    if (!known && older) this.order.push(job.id);
    else if (!known) this.order.unshift(job.id);
    if (job.state === "queued" && !this.waitingSince.has(job.id)) this.waitingSince.set(job.id, now);
    if (job.state !== "queued") this.waitingSince.delete(job.id);
    if (!ENDED.has(job.state)) return;
    this.#dropPreviews(job);
    this.stopping.delete(job.id);
  }

  /** The newest jobs anew: those that are not known yet come before those that are. */
  putNewest(jobs, now) {
    const known = jobs.findIndex((job) => this.jobs.has(job.id));
    const end = known === -1 ? jobs.length : known;
    for (const job of jobs.slice(0, end).reverse()) this.put(job, now);
    // Among what is known, unknown ones belong to a page that was not loaded yet.
    for (const job of jobs.slice(end)) if (this.jobs.has(job.id)) this.put(job, now);
  }

  /** The next page of older ones. */
  putOlder(jobs, now) {
    for (const job of jobs) this.put(job, now, { older: true });
  }

  preview(id, at, url) {
    const job = this.jobs.get(id);
    if (job && !ENDED.has(job.state)) this.previews.set(tileKey(id, at), url);
  }

  remove(id) {
    const job = this.jobs.get(id);
    if (!job) return;
    this.#dropPreviews(job);
    this.jobs.delete(id);
    this.waitingSince.delete(id);
    this.stopping.delete(id);
    this.order = this.order.filter((each) => each !== id);
  }

  /** @returns {{key: string, job: object, at: number}[]} one for each picture, of a kind or of all */
  tiles(kind = "all") {
    return this.order.flatMap((id) => {
      const job = this.jobs.get(id);
      if (kind !== "all" && job.kind !== kind) return [];
      return job.tasks.map((_, at) => ({ key: tileKey(id, at), job, at }));
    });
  }

  /** @returns {object[]} jobs that have not ended, those first that are done first: at work, then oldest */
  unfinished() {
    const jobs = this.order.map((id) => this.jobs.get(id)).filter((job) => !ENDED.has(job.state));
    return jobs.reverse().sort((a, b) => rank(a) - rank(b));
  }

  /** @returns {(job: object) => object} what {@link standing} wants to know beside a job that has not ended */
  survey(now) {
    const unfinished = this.unfinished();
    const queued = unfinished.filter((job) => job.state === "queued");
    const places = new Map(queued.map((job, at) => [job.id, at]));
    const working = queued.length < unfinished.length;
    return ({ id }) => ({
      waitedMs: now - (this.waitingSince.get(id) ?? now),
      ahead: places.get(id) ?? 0,
      working,
      stopping: this.stopping.has(id),
    });
  }

  get isFull() {
    return this.order.length >= MOST_JOBS;
  }

  #dropPreviews(job) {
    job.tasks.forEach((_, at) => this.previews.delete(tileKey(job.id, at)));
  }
}

function rank(job) {
  return job.state === "in_progress" ? 0 : 1;
}

export function tileKey(id, at) {
  return `${id}/${at}`;
}

/** @returns {string} what a picture's file is called among a job's: "content", "thumbnail-2" */
export function variant(name, at) {
  return at > 0 ? `${name}-${at}` : name;
}

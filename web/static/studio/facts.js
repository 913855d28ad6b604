/** Jobs in words: what made a picture, how far one is, how two differ. Pure. */
import { hadPicture } from "./asking.js";

/** Seconds that a job waits before the page says what it waits for. */
export const PATIENCE_MS = 5000;

const AWAITED = "Waiting for a worker";
const NO_WORKER = `${AWAITED}. Its models may still be loading. If none runs, start “antiphon worker”.`;

/** @returns {{name: string, label: string, value: string}[]} everything that decides what a picture looks like */
export function factsOf(job, at) {
  const task = job.tasks[at];
  const rows = [
    ["prompt", "Prompt", task.prompt],
    ["model", "Model", task.model],
    ["size", "Size", `${task.width} × ${task.height}`],
    ["steps", "Steps", String(task.steps)],
    ["guidance", "Guidance", String(task.guidance)],
    ["seed", "Seed", String(task.seed)],
  ];
  if (task.negative_prompt) rows.splice(1, 0, ["negative", "Left out", task.negative_prompt]);
  if (job.kind === "video") rows.push(["frames", "Length", clipLength(task)]);
  if (hadPicture(job, at)) rows.push(["strength", "From a picture", `${Math.round((task.strength ?? 1) * 100)} % made anew`]);
  const adapters = Object.entries(task.adapters ?? {});
  if (adapters.length > 0) rows.push(["adapters", "Adapters", adapters.map(([name, weight]) => `${name} ${weight}`).join(", ")]);
  return rows.map(([name, label, value]) => ({ name, label, value }));
}

/** @returns {string} how long a clip is: "17 frames, 2.1 s" */
function clipLength({ frames, frames_per_second: rate }) {
  return `${frames} frames, ${(frames / Math.max(1, rate)).toFixed(1)} s`;
}

/** @returns {{label: string, first: string, second: string, differs: boolean}[]} two pictures beside each other */
export function compared(first, second) {
  const others = new Map(factsOf(second.job, second.at).map((fact) => [fact.name, fact]));
  const rows = factsOf(first.job, first.at).map(({ name, label, value }) => {
    const other = others.get(name)?.value ?? "–";
    others.delete(name);
    return { label, first: value, second: other, differs: value !== other };
  });
  for (const { label, value } of others.values()) rows.push({ label, first: "–", second: value, differs: true });
  return rows;
}

/** @returns {string} a time to come or gone by: "8 s", "2 min", "1 h 5 min" */
export function duration(ms) {
  const seconds = Math.max(1, Math.round(ms / 1000));
  if (seconds < 100) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 100 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/**
 * @param {object} job
 * @param {{waitedMs: number, ahead: number, working: boolean, stopping: boolean}} around how long it was
 *   seen waiting, what waits before it, whether any job is being made, and whether it was told to stop
 * @returns {string} how far a job is
 */
export function standing(job, { waitedMs, ahead, working, stopping }) {
  if (stopping) return "Stopping";
  if (job.state === "queued") {
    if (!working && waitedMs > PATIENCE_MS) return ahead > 0 ? AWAITED : NO_WORKER;
    return ahead > 0 ? `Waiting, ${ahead} before it` : "Waiting";
  }
  if (job.state !== "in_progress") return "";
  const parts = [`${job.progress} %`];
  if (job.remaining_ms != null && job.progress > 0) parts.push(`${duration(job.remaining_ms)} left`);
  return parts.join(", ");
}

/** @returns {string} of late: "120 ms a step" */
export function pace(job) {
  if (!(job.step_ms > 0)) return "";
  const { step_ms: ms } = job;
  return ms < 1000 ? `${Math.round(ms)} ms a step` : `${(ms / 1000).toFixed(1)} s a step`;
}

/**
 * @param {object[]} jobs that have not ended
 * @param {(job: object) => {waitedMs: number, working: boolean}} around as for {@link standing}
 * @returns {string} everything that is under way: "1 under way, 2 waiting, about 8 s"
 */
export function summary(jobs, around) {
  const under = jobs.filter((job) => job.state === "in_progress");
  const waiting = jobs.filter((job) => job.state === "queued");
  if (under.length === 0 && waiting.some((job) => around(job).waitedMs > PATIENCE_MS)) return AWAITED;
  const parts = [];
  if (under.length > 0) parts.push(`${under.length} under way`);
  if (waiting.length > 0) parts.push(`${waiting.length} waiting`);
  const left = Math.max(0, ...under.map((job) => job.remaining_ms ?? 0));
  if (left > 0 && waiting.length === 0) parts.push(`about ${duration(left)}`);
  return parts.join(", ");
}

/** @returns {number} milliseconds that making it took, 0 where it is not known */
export function took(job) {
  return job.started_at != null && job.ended_at != null ? (job.ended_at - job.started_at) * 1000 : 0;
}

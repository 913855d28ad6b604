/** What went wrong, and what a person can do about it. */

const BY_CODE = {
  queue_full: "The queue is full. Wait until something is done, or cancel what you no longer need, then try again.",
  model_not_found: "This server no longer has that model. Choose another one.",
  idempotency_mismatch: "This request was handed in before, differently. Press the button once more.",
  store_unavailable: "The server cannot reach its records just now. Try again in a moment.",
  request_too_large: "The reference picture is too large for this server. Use a smaller one.",
  input_too_large: "The reference picture is too large for this server. Use a smaller one.",
};

const BY_JOB = {
  cancelled: "Cancelled.",
  worker_crashed: "The worker died twice over this one. Try fewer pixels or steps.",
  out_of_memory: "The worker ran out of memory. Try fewer pixels or frames.",
};

const UNAUTHORIZED = 401;
const TROUBLE = 500;

/**
 * @param {{status: number, code: string, message: string}} error an ApiError
 * @returns {{text: string, action: "key"|"again"|null}} and what may be offered
 */
export function problem(error) {
  if (error.status === UNAUTHORIZED) return { text: "This server needs an access key.", action: "key" };
  if (!error.status) {
    return { text: "The server does not answer. Nothing you made is lost; try again once it is back.", action: "again" };
  }
  const again = error.status === 429 || error.status >= TROUBLE;
  return { text: BY_CODE[error.code] ?? `The server says: ${error.message}`, action: again ? "again" : null };
}

/** @returns {string} why a job made nothing */
export function failure(job) {
  if (job.state === "cancelled") return BY_JOB.cancelled;
  const { code = "", message = "" } = job.error ?? {};
  const said = message ? `${message[0].toUpperCase()}${message.slice(1)}` : "It did not work.";
  return BY_JOB[code] ?? said;
}

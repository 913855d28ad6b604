// What the `openai` package raises where something is refused.

import OpenAI from 'openai';

import { check } from './common.mjs';

/** Passes where a request is refused because of one parameter. */
export async function refused(param, asked) {
  const error = await asked.then(() => null, (why) => why);
  check(error instanceof OpenAI.BadRequestError, `expected a refusal, got ${error}`);
  check(error.param === param, `${error.param} was refused`);
}

/**
 * What a stated rate limit must have refused in a burst, by its numbers alone (items 214, 230): a service that stumbles now and
 * then, whatever the load, does not look like that. It stumbles as often below the limit as above.
 */
import type { Limits } from "../../history/stage-facts.ts";
import type { Answer } from "../sending/answer.ts";

/** Another server's clock, and limits that are counted in windows. */
const SLACK = 0.8;
/** So many times as often, beyond what is surely allowed. */
const CLEARLY = 3;

const byTime = (answers: readonly Answer[]): Answer[] =>
  [...answers].sort((a, b) => a.received.sentUs - b.received.sentUs);

const spanS = (answers: readonly Answer[]): number => {
  const times = answers.flatMap(({ received: { sentUs, doneUs } }) => [sentUs, doneUs]);
  return times.length === 0 ? 0 : (Math.max(...times) - Math.min(...times)) / 1e6;
};

/** Calls a second that were made. */
export const madePerS = (answers: readonly Answer[]): number => answers.length / Math.max(spanS(answers), 1e-3);

/** How many of these calls the stated limit refuses at the least; `null` where none is stated. Each replica may count alone. */
export const dueRefusals = (answers: readonly Answer[], limits: Limits | undefined): number | null => {
  const { rate_per_s: ratePerS, burst = ratePerS, replicas = 1 } = limits ?? {};
  if (ratePerS === undefined || burst === undefined) return null;
  return answers.length - replicas * (burst + ratePerS * spanS(answers));
};

export const isWorthOf = (refused: readonly Answer[], due: number): boolean => refused.length >= due * SLACK;

/**
 * Whether such answers come hardly at all among the first calls and clearly more often after them. `restedMs`: so long the limit
 * has had to fill up again.
 */
export const comesAbove = (
  answers: readonly Answer[],
  isSuch: (answer: Answer) => boolean,
  limits: Limits | undefined,
  restedMs: number,
): boolean => {
  const { rate_per_s: ratePerS = 0, burst = ratePerS } = limits ?? {};
  const surely = Math.floor(Math.min(burst, (ratePerS * restedMs) / 1000) / 2);
  const ordered = byTime(answers);
  const share = (part: readonly Answer[]): number => part.filter(isSuch).length / Math.max(1, part.length);
  return share(ordered.slice(surely)) > CLEARLY * share(ordered.slice(0, surely));
};

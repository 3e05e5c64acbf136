/**
 * Every answer that can be had by asking: correct calls of every route, and one wrong call for each static refusal that
 * the target's roles allow (spec-checklist.md part D). Each round of calls visits all cases once, in an order of its own.
 */
import { constant } from "../load-profiles.ts";
import { saltOf, whole } from "../random.ts";
import { type Step, stepOf } from "../step.ts";
import { storyOf } from "../story.ts";
import { oncePerView, type TargetView } from "../target-view.ts";
import { rolesOf, type SmokeCase, sessionsIn } from "./smoke-case.ts";
import { correctCases } from "./smoke-correct.ts";
import { managementCases } from "./smoke-management.ts";
import { refusedCases } from "./smoke-refused.ts";

const SALT = saltOf("smoke");

const casesOf = oncePerView((view: TargetView): SmokeCase[] =>
  [...correctCases, ...refusedCases, ...managementCases].filter((smokeCase) =>
    smokeCase.needs === "writes"
      ? view.permits.writes && rolesOf(smokeCase.wish).every((role) => role in view.roles)
      : rolesOf(smokeCase.wish).every((role) => role in view.roles),
  ),
);

/** Position `at` of a round, shuffled: an affine walk through the cases, so that no round has to be stored. */
const shuffled = (seed: number, round: number, at: number, count: number): number => {
  const coprime = (step: number): boolean => {
    let a = step;
    let b = count;
    while (b !== 0) [a, b] = [b, a % b];
    return a === 1;
  };
  let stride = 1 + whole(seed, round, SALT, count);
  while (!coprime(stride)) stride += 1;
  return (whole(seed, round, SALT + 1, count) + at * stride) % count;
};

/** How many calls one round of all cases takes. */
export const smokeRound = (view: TargetView): number => casesOf(view).length;

export const smoke = storyOf({
  name: "smoke",
  purpose: "every route once as it should be called, and every refusal that the caller can provoke without load",
  missing: (view) => (Object.keys(view.roles).length === 0 ? ["at least one role under `credentials`"] : []),
  profile: (view, { ratePerS = 25, durationS } = {}) =>
    constant(ratePerS, durationS ?? Math.max(8, Math.ceil((3 * smokeRound(view)) / ratePerS))),
  plan: (seed, i, view): Step[] => {
    const cases = casesOf(view);
    const found = cases[shuffled(seed, Math.floor(i / cases.length), i % cases.length, cases.length)];
    return found === undefined ? [] : [stepOf(view, i, found.wish)];
  },
  sessions: (view) => sessionsIn(casesOf(view)),
});

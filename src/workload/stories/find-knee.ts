/**
 * Ramps for targets without a stated capacity: each step is 1.5 times the one before. `readRamp` of shedding/ finds
 * the knee in the lines of a ramp, which may be ended once the knee is found.
 */
import type { RouteName } from "../../contract/routes.ts";
import { callAs } from "../callers/callers.ts";
import { streamers } from "../callers/overload.ts";
import { inTurn } from "../callers/rates.ts";
import { type Profile, steps } from "../load-profiles.ts";
import { type Story, storyOf } from "../story.ts";
import { CATALOGS } from "./reads.ts";

const GROWTH = 1.5;
const STEP_S = 2;
/** The lowest rate at which a step of two seconds has enough calls to judge. */
const FIRST_PER_S = 2;
/** The highest rate if neither the user nor a permit states one. */
const MAX_PER_S = 200;

/** Steps up to `maxPerS` that begin between 2 and 3 calls/s; a single step if `maxPerS` is lower. */
export const kneeRamp = (maxPerS: number, durationS?: number): Profile => {
  const levels: number[] = [maxPerS];
  while ((levels[0] as number) / GROWTH >= FIRST_PER_S) levels.unshift((levels[0] as number) / GROWTH);
  return steps(levels, durationS ?? STEP_S * levels.length);
};

const rampStory = (name: string, purpose: string, routes: readonly RouteName[]): Story =>
  storyOf({
    name,
    purpose,
    profile: (_view, { ratePerS, durationS, maxPerS } = {}) => kneeRamp(ratePerS ?? maxPerS ?? MAX_PER_S, durationS),
    plan: (_seed, i, view) => {
      const { at } = streamers(view);
      return [callAs(view, i, at(i), { route: inTurn(routes, i) })];
    },
    routes,
  });

export const findKnee = rampStory("find-knee", "streams at a rate that grows until the target refuses some", [
  "chat.control",
]);

export const findReadKnee = rampStory(
  "find-read-knee",
  "catalog reads at a rate that grows until the target refuses some",
  CATALOGS,
);

/**
 * Ramps for targets whose capacity nobody states: each step half as high again as the one before. `kneeOfRamp` of shedding/
 * reads the knee out of their lines; who plays one may end it as soon as the knee is found.
 */
import type { RouteName } from "../../contract/routes.ts";
import { callAs } from "../callers/callers.ts";
import { streamers } from "../callers/overload.ts";
import { inTurn } from "../callers/tenants.ts";
import { type Profile, steps } from "../load-profiles.ts";
import { type Story, storyOf } from "../story.ts";
import { CATALOGS } from "./reads.ts";

const GROWTH = 1.5;
const STEP_S = 2;
/** From here on a step of two seconds has calls enough to judge. */
const FIRST_PER_S = 2;
/** Where neither the user nor a permit says how far to go. */
const MAX_PER_S = 200;

/** The steps from 2 calls/s to `maxPerS`; one alone where that is less. */
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

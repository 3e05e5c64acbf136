/** Stories of the cheapest calls, which hold a slot only briefly: catalog reads, exchanges, calls at a key's rate; and ramps. */

import type { RouteName } from "../../contract/routes.ts";
import { type Caller, callAs, minting, mintingMissing, runtimeCallers, sessionsOf } from "../callers/callers.ts";
import { KEY, streamers } from "../callers/overload.ts";
import { inTurn, partOf, readsPerS, turnsOf, withinMax } from "../callers/rates.ts";
import { oncePerView, type TargetView } from "../callers/target-view.ts";
import { constant, type Profile, profileCalls, profileDurationS, steps } from "../load-profiles.ts";
import { exchangeStep } from "../step.ts";
import { type ProfileWish, profileAt, type Reach, reaching, type Story, stayingBelow, storyOf } from "../story.ts";

/** A profile at a share of the rate that the keys of these callers allow together, at most `mostPerS`. */
const profileOf = (callersOf: (view: TargetView) => readonly Caller[], share: number, mostPerS: number) =>
  profileAt((view) => {
    const allowed = partOf(readsPerS(view, callersOf(view)), share);
    return allowed === null ? null : Math.min(mostPerS, allowed);
  }, 10);

export const CATALOGS = ["design.styles", "design.samples", "design.themes"] as const;

const readers = oncePerView((view: TargetView) => turnsOf(runtimeCallers(view)));

export const catalogReads = storyOf({
  name: "catalog-reads",
  purpose: "catalog reads: the cost of deciding, with next to no work behind it",
  needsCapacity: "reads",
  profile: profileOf(runtimeCallers, 0.7, 200),
  plan: (_seed, i, view) => {
    const route = inTurn(CATALOGS, Math.floor(i / runtimeCallers(view).length) + i);
    return [callAs(view, i, readers(view)(i), { route })];
  },
  routes: CATALOGS,
});

const minters = oncePerView((view: TargetView) => turnsOf(minting(view)));

/** All users reload the page at once: nothing but exchanges, none of them charged (items 64-89). */
export const sessionStorm = storyOf({
  name: "session-storm",
  purpose: "exchanges by many organizations at once, as after an outage of the page",
  missing: mintingMissing,
  needsCapacity: "reads",
  profile: profileOf(minting, 0.8, 300),
  plan: (_seed, i, view) => [exchangeStep(view, i, minters(view)(i).name, i % 2 === 0 ? "chat" : "editor")],
});

const KEYS = 2;

const asked = oncePerView((view: TargetView): Caller[] => runtimeCallers(view).slice(0, KEYS));

/** A key's rate: stated, or the one that the ramp of reads met. */
const rateOf = (view: TargetView): number | null => {
  const found = view.capacity?.reads;
  if (view.limits.rate_per_s !== undefined) return view.limits.rate_per_s;
  return found?.by === KEY ? found.perS / Math.max(1, runtimeCallers(view).length) : null;
};

const burstOf = (view: TargetView, rate: number): number => view.limits.burst ?? 2 * rate;

const reachOf = (view: TargetView, wish?: ProfileWish): Reach => {
  const beyond = (reason: string): Reach => stayingBelow(KEY, reason);
  const rate = rateOf(view);
  const profile = rateLimitEdge.profile(view, wish);
  if (rate === null || profile === null) return beyond("no key met a limit, and `limits.rate_per_s` is not stated");
  const perKey = profileCalls(profile) / asked(view).length;
  const allowed = burstOf(view, rate) + rate * profileDurationS(profile);
  if (perKey > 1.05 * allowed) return reaching(KEY);
  return beyond(`${perKey.toFixed(0)} calls do not use up the ${allowed.toFixed(0)} that burst and rate allow a key`);
};

/** Cheap calls of two keys at twice their rate: exactly burst plus rate may pass (items 214, 230). */
export const rateLimitEdge = storyOf({
  name: "rate-limit-edge",
  purpose: "keys at twice their rate: no window admits more or less than the limit",
  needsCapacity: "reads",
  // Long enough for the burst to be gone in the first third.
  profile: (view, { ratePerS, durationS, maxPerS } = {}) => {
    const rate = rateOf(view);
    if (rate === null) {
      const wanted = ratePerS ?? view.capacity?.reads?.perS;
      return wanted === undefined ? null : constant(wanted, durationS ?? 6);
    }
    const keys = asked(view).length;
    const offered = withinMax(ratePerS ?? 2 * keys * rate, maxPerS);
    const excess = offered / keys - rate;
    const gone = excess <= 0 ? 0 : burstOf(view, rate) / excess;
    return constant(offered, durationS ?? Math.max(6, Math.ceil(3 * Math.min(gone, 20))));
  },
  reaches: reachOf,
  plan: (_seed, i, view) => [callAs(view, i, inTurn(asked(view), i), { route: "design.themes" })],
  sessions: (view) => sessionsOf(asked(view), ["design.themes"]),
});

/** Growth of a ramp for targets without a stated capacity. `readRamp` of shedding/ finds the knee in its lines. */
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

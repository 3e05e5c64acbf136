/**
 * An ordinary day: many organizations of unequal size, mostly reads, some chat, a few maps opened. The base load of a
 * comparison and of a soak; nobody is meant to be refused, and nothing of it is charged: tiles are free, and the sessions
 * are for chat (A9, item 80).
 */
import type { RouteName } from "../../contract/routes.ts";
import { callAs, callersMissing, minting, runtimeCallers, sessionsOf } from "../callers/callers.ts";
import { chatPerS, inFlightCaps, sharesOf } from "../callers/rates.ts";
import { oncePerView, type TargetView } from "../callers/target-view.ts";
import { bySize, chooserOf } from "../callers/tenants.ts";
import { constant } from "../load-profiles.ts";
import { saltOf, uniform } from "../random.ts";
import { exchangeStep, type Step } from "../step.ts";
import { storyOf } from "../story.ts";

const WHO = saltOf("steady-mix who");
const WHAT = saltOf("steady-mix what");

type Deed = RouteName | "exchange";

const DEEDS: readonly { item: Deed; weight: number }[] = [
  { item: "design.styles", weight: 22 },
  { item: "design.themes", weight: 12 },
  { item: "design.samples", weight: 6 },
  { item: "poi.enrich", weight: 20 },
  { item: "chat.control", weight: 14 },
  { item: "chat.summary", weight: 5 },
  { item: "chat.button", weight: 5 },
  { item: "chat.route", weight: 6 },
  { item: "maps.tiles", weight: 5 },
  { item: "exchange", weight: 5 },
];
const deedFor = chooserOf(DEEDS);
/** Part of the calls that work for as long as a stream does. */
const WORKING = 0.5;

const callersBySize = oncePerView((view: TargetView) => {
  const weighted = bySize(runtimeCallers(view));
  return { choose: chooserOf(weighted), shares: sharesOf(weighted) };
});
const mintingBySize = oncePerView((view: TargetView) => chooserOf(bySize(minting(view))));

/** Shared with the stories that run the same mix under another profile or fault. */
export const planMix = (seed: number, i: number, view: TargetView): Step[] => {
  const deed = deedFor(uniform(seed, i, WHAT));
  const who = uniform(seed, i, WHO);
  if (deed === "exchange" && minting(view).length > 0) {
    return [exchangeStep(view, i, mintingBySize(view)(who).name, "chat")];
  }
  const caller = callersBySize(view).choose(who);
  // A tile needs a place to ask for it, and of a page a session that is charged.
  const hasTiles = view.tiles === true && caller.kind === "server";
  const isRead = deed === "exchange" || (deed === "maps.tiles" && !hasTiles);
  return [callAs(view, i, caller, { route: isRead ? "design.styles" : deed })];
};

export const sessionsOfMix = (view: TargetView) => sessionsOf(runtimeCallers(view), ["chat.control", "design.styles"]);

/**
 * Calls per second that leave half of the streams' capacity free (one call in four is a stream), and of what the largest
 * organization and the most used key may ask for as well. `null` when no capacity is known.
 */
export const mixRatePerS = (view: TargetView): number | null => {
  const { shares } = callersBySize(view);
  const streams = chatPerS(view, shares);
  if (streams === null) return null;
  const { org } = inFlightCaps(view);
  const { service_ms: serviceMs, rate_per_s: rate } = view.limits;
  const bounds = [200, 0.5 * streams];
  if (rate !== undefined && shares.key > 0) bounds.push((0.6 * rate) / shares.key);
  if (org !== undefined && serviceMs !== undefined && shares.org > 0) {
    bounds.push((0.5 * org * 1000) / (serviceMs * WORKING * shares.org));
  }
  return Math.min(...bounds);
};

export const steadyMix = storyOf({
  name: "steady-mix",
  purpose: "an ordinary day of many organizations, with nobody refused",
  missing: callersMissing,
  needsCapacity: "chat",
  profile: (view, { ratePerS, durationS = 15 } = {}) => {
    const rate = ratePerS ?? mixRatePerS(view);
    return rate === null ? null : constant(rate, durationS);
  },
  plan: planMix,
  sessions: sessionsOfMix,
});

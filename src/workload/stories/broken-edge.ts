/**
 * The load beside a fault between callers and the API: streams, metered map loads and reads in turn, so that a connection
 * breaks while a stream is open, while a charge is under way, and while an answer is written.
 */
import { callAs, callersMissing, runtimeCallers, sessionsOf } from "../callers/callers.ts";
import { readsPerS } from "../callers/rates.ts";
import { oncePerView, type TargetView } from "../callers/target-view.ts";
import { turnsOf } from "../callers/tenants.ts";
import { constant } from "../load-profiles.ts";
import { storyOf } from "../story.ts";

// Tenants with little left are for the stages about quotas.
const PLENTY = 10_000;
const RATE_PER_S = 20;

const callersOf = oncePerView((view: TargetView) => {
  const all = runtimeCallers(view);
  const plenty = all.filter(({ allowance }) => allowance === undefined || allowance >= PLENTY);
  return turnsOf(plenty.length > 0 ? plenty : all);
});

export const brokenEdge = storyOf({
  name: "broken-edge",
  purpose: "streams, reads and metered calls, beside a broken way from callers to the API",
  missing: callersMissing,
  profile: (view, { ratePerS, durationS = 15 } = {}) => {
    const allowed = readsPerS(view, runtimeCallers(view));
    return constant(ratePerS ?? Math.min(RATE_PER_S, allowed === null ? RATE_PER_S : 0.6 * allowed), durationS);
  },
  plan: (_seed, i, view) => {
    const caller = callersOf(view)(Math.floor(i / 3));
    const isMetered = view.permits.quotaBurn && view.mapLoads === true && caller.kind === "server";
    const routes = ["chat.control", isMetered ? "maps.loads" : "design.themes", "design.styles"] as const;
    return [callAs(view, i, caller, { route: routes[i % 3] ?? "design.styles" })];
  },
  sessions: (view) => sessionsOf(runtimeCallers(view), ["chat.control", "design.styles"]),
});

/** The cheapest answers there are, from many organizations in turn: what the front of the API costs by itself. */
import { callAs, callersMissing, runtimeCallers, sessionsOf } from "../callers/callers.ts";
import { readsPerS } from "../callers/rates.ts";
import { oncePerView, type TargetView } from "../callers/target-view.ts";
import { inTurn, turnsOf } from "../callers/tenants.ts";
import { constant } from "../load-profiles.ts";
import { storyOf } from "../story.ts";

export const CATALOGS = ["design.styles", "design.samples", "design.themes"] as const;

const turns = oncePerView((view: TargetView) => turnsOf(runtimeCallers(view)));

export const catalogReads = storyOf({
  name: "catalog-reads",
  purpose: "catalog reads: the cost of deciding, with next to no work behind it",
  missing: callersMissing,
  needsCapacity: "reads",
  // Below what the keys may ask for, all together.
  profile: (view, { ratePerS, durationS = 10 } = {}) => {
    const allowed = readsPerS(view, runtimeCallers(view));
    if (ratePerS === undefined && allowed === null) return null;
    return constant(ratePerS ?? Math.min(200, 0.7 * (allowed as number)), durationS);
  },
  plan: (_seed, i, view) => {
    const route = inTurn(CATALOGS, Math.floor(i / runtimeCallers(view).length) + i);
    return [callAs(view, i, turns(view)(i), { route })];
  },
  sessions: (view) => sessionsOf(runtimeCallers(view), CATALOGS),
});

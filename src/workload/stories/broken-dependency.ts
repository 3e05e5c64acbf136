/**
 * The load beside a fault: reads and, where they may be spent, metered map loads of many organizations in turn, every one of
 * which needs the key service and the limiter, and none of which holds a slot for longer than its decision takes. So what
 * comes back speaks of the dependency and of nothing else, and what was charged for a call without an answer shows in the
 * ledger.
 */
import { type Caller, callAs, callersMissing, runtimeCallers, sessionsOf } from "../callers/callers.ts";
import { readsPerS } from "../callers/rates.ts";
import { oncePerView, type TargetView } from "../callers/target-view.ts";
import { turnsOf } from "../callers/tenants.ts";
import { constant } from "../load-profiles.ts";
import { storyOf } from "../story.ts";

// Tenants with little left are for the stages about quotas.
const PLENTY = 10_000;
/** Map loads of the longest stage that this story is played in; a smaller budget buys none. */
const ENOUGH = 2_000;

type Cast = { at: (i: number) => Caller; isCharged: boolean };

const castOf = oncePerView((view: TargetView): Cast => {
  const all = runtimeCallers(view);
  const plenty = all.filter(({ allowance }) => allowance === undefined || allowance >= PLENTY);
  const callers = plenty.length > 0 ? plenty : all;
  return {
    at: turnsOf(callers),
    // A page's session for tiles is charged itself, so it is server keys that load maps.
    isCharged:
      view.permits.quotaBurn &&
      view.mapLoads === true &&
      (view.budget?.mapLoads ?? ENOUGH) >= ENOUGH &&
      callers.every(({ kind }) => kind === "server"),
  };
});

export const brokenDependency = storyOf({
  name: "broken-dependency",
  purpose: "reads and metered calls of many organizations, beside a broken link",
  missing: callersMissing,
  profile: (view, { ratePerS, durationS = 15 } = {}) => {
    const allowed = readsPerS(view, runtimeCallers(view));
    return constant(ratePerS ?? Math.min(30, allowed === null ? 30 : 0.6 * allowed), durationS);
  },
  plan: (_seed, i, view) => {
    const { at, isCharged } = castOf(view);
    const route = i % 2 === 0 ? "design.styles" : isCharged ? "maps.loads" : "design.themes";
    return [callAs(view, i, at(Math.floor(i / 2)), { route })];
  },
  sessions: (view) => sessionsOf(runtimeCallers(view), ["design.styles"]),
});

/**
 * Concurrent tile mints by organizations whose allowance runs out: exactly as many mints may pass as map loads are left
 * (items 79, 185, 204-207). A noisy organization beside them meets its own cap (item 211).
 */
import { type Caller, callAs, publishableCallers, roleCaller, runtimeCallers, sessionsOf } from "../callers/callers.ts";
import { ORGANIZATION } from "../callers/overload.ts";
import { capacityPerS, chooserOf, withinMax } from "../callers/rates.ts";
import { oncePerView, type TargetView } from "../callers/target-view.ts";
import { constant, type Profile, profileCalls, profilePeakPerS } from "../load-profiles.ts";
import { saltOf, uniform } from "../random.ts";
import { exchangeStep, type Step } from "../step.ts";
import { costsOfPlan, type ProfileWish, type Reach, storyOf } from "../story.ts";
import { burstReach, isNoisyCall, noisyShare, orgsOf } from "./noisy.ts";

/** The most mints that a stage can make; an organization with more left would not run out. */
const REACHABLE = 600;
const OF_A_TIER = 4;

const EXPENDABLE = ["publishable_expendable", "publishable_expendable_paid"] as const;

/** Map loads left, at most: the allowance on Free, five times it on a paid plan (items 185, 206). */
export const leftAtMost = ({ tier, allowance, used }: Caller): number =>
  (tier === "Free" ? 1 : 5) * (allowance ?? 0) - (used ?? 0);

/** Organizations of Free and paid plans in turn, the least left first, as many as the budget has room for. */
const quotaMinters = oncePerView((view: TargetView): Caller[] => {
  if (!view.permits.quotaBurn) return [];
  const tenants = publishableCallers(view).filter(({ name }) => name.startsWith("tenant:"));
  const orgs = new Set(tenants.map(({ org }) => org));
  const expendable = EXPENDABLE.flatMap((role) => roleCaller(view, role, "publishable") ?? []);
  const within = [...tenants, ...expendable.filter(({ org }) => !orgs.has(org))]
    .filter((caller) => leftAtMost(caller) > 0 && leftAtMost(caller) <= REACHABLE)
    .sort((a, b) => leftAtMost(a) - leftAtMost(b));
  const [free, paid] = (["Free", "Pro"] as const).map((tier) => within.filter((caller) => caller.tier === tier));
  const chosen: Caller[] = [];
  let room = view.budget?.mapLoads ?? Number.POSITIVE_INFINITY;
  for (let at = 0; at < OF_A_TIER; at++) {
    for (const caller of [free?.[at], paid?.[at]]) {
      if (caller === undefined || leftAtMost(caller) > room) continue;
      chosen.push(caller);
      room -= leftAtMost(caller);
    }
  }
  return chosen;
});

const quotaMintersMissing = (view: TargetView): string[] => {
  if (!view.permits.quotaBurn)
    return ["`permits.quota_burn`: true, because tenants or roles have their allowance used up"];
  if (quotaMinters(view).length > 0) return [];
  const budget = view.budget?.mapLoads;
  const bought = budget === undefined ? "" : ` and fits \`budget.map_loads\` (${budget})`;
  return [
    `a tenant with a publishable key, its \`tier\` and a \`limit\` of which at most ${REACHABLE} map loads are left${bought}, ` +
      "or the role `publishable_expendable` or `publishable_expendable_paid` with its `limit`, which nothing has used up before, as rules of verify do",
  ];
};

const WHO = saltOf("tile-quota-stampede who");
/** Calls per second if there is no noisy organization, whose bursts would need a higher rate. */
const CALM_PER_S = 50;
/** Mints for each map load left, so that every allowance runs out. */
const CROSSES = 1.5;

const castOf = oncePerView((view: TargetView) => {
  const minters = quotaMinters(view);
  const orgs = new Set(minters.map(({ org }) => org));
  // Weighted by what is left, so that all run out at about the same time.
  const choose = chooserOf(minters.map((item) => ({ item, weight: leftAtMost(item) })));
  return { noisy: runtimeCallers(view).find(({ org }) => !orgs.has(org)), choose };
});

/** Every call mints a session, except those of the noisy organization's bursts. */
const plan = (seed: number, i: number, view: TargetView): Step[] => {
  const { noisy, choose } = castOf(view);
  if (noisy !== undefined && isNoisyCall(view, i)) return [callAs(view, i, noisy, { route: "chat.control" })];
  if (quotaMinters(view).length === 0) return [];
  return [exchangeStep(view, i, choose(uniform(seed, i, WHO)).name, "tile")];
};

const mintShare = (view: TargetView): number => (castOf(view).noisy === undefined ? 1 : 1 - noisyShare(view));

const leftOfAll = (view: TargetView): number => quotaMinters(view).reduce((sum, caller) => sum + leftAtMost(caller), 0);

const LINES = [
  ["Free", "429 map_load_quota_exceeded", EXPENDABLE[0]],
  ["Pro", "429 map_load_hard_stop", EXPENDABLE[1]],
] as const;

const reachOf = (view: TargetView, wish?: ProfileWish): Reach => {
  const profile = tileQuotaStampede.profile(view, wish) as Profile;
  const minters = quotaMinters(view);
  const calls = profileCalls(profile);
  const isCrossed = calls * mintShare(view) >= 1.2 * leftOfAll(view);
  // If usage could not be read, an allowance may be used up already, so no admission is required.
  const all = minters.some(({ used }) => used !== undefined) ? ["200"] : [];
  const beyond: Reach["beyond"][number][] = [];
  for (const [tier, outcome, role] of LINES) {
    const isThere = minters.some((caller) => caller.tier === tier);
    if (isThere && isCrossed) all.push(outcome);
    else if (isThere) {
      const reason = `${calls.toFixed(0)} calls cannot use up what may be left of the allowance`;
      beyond.push({ outcome, reason, staysBelow: true });
    } else beyond.push({ outcome, reason: `no ${tier} tenant with a small \`limit\` and no role \`${role}\`` });
  }
  if (castOf(view).noisy === undefined) {
    const reason = "no tenant with a server key, and no role `server`, of an organization that mints nothing";
    return { all, oneOf: [], beyond: [...beyond, { outcome: ORGANIZATION, reason }] };
  }
  const noisy = burstReach(view, profilePeakPerS(profile));
  return { all: [...new Set([...all, ...noisy.all])], oneOf: noisy.oneOf, beyond: [...beyond, ...noisy.beyond] };
};

export const tileQuotaStampede = storyOf({
  name: "tile-quota-stampede",
  purpose: "concurrent tile mints across the allowance of Free and paid organizations, beside a noisy one",
  missing: quotaMintersMissing,
  profile: (view, { ratePerS, durationS, maxPerS } = {}) => {
    const { noisy } = castOf(view);
    const capacity = capacityPerS(view.limits);
    // Fast enough that the noisy organization opens streams faster than its streams end.
    const fast = capacity === null ? 100 : Math.min(400, Math.max(100, Math.round(1.5 * capacity)));
    const rate = withinMax(ratePerS ?? (noisy === undefined ? CALM_PER_S : fast), maxPerS);
    const { rate_per_s: perKey = Number.POSITIVE_INFINITY } = view.limits;
    const mintsPerS = Math.min(rate * mintShare(view), perKey * quotaMinters(view).length);
    return constant(rate, durationS ?? Math.max(4, Math.ceil((CROSSES * leftOfAll(view)) / Math.max(1e-3, mintsPerS))));
  },
  reaches: reachOf,
  // A mint past the allowance is refused and not charged (item 222).
  costs: (view, calls) => {
    const costs = costsOfPlan(plan, tileQuotaStampede.sessions(view).length, view, calls);
    return { ...costs, map_loads: Math.min(costs.map_loads, leftOfAll(view)) };
  },
  plan,
  sessions: (view) =>
    sessionsOf(
      runtimeCallers(view).filter((caller) => caller === castOf(view).noisy),
      ["chat.control"],
    ),
  noisy: (view) => orgsOf(castOf(view).noisy),
});

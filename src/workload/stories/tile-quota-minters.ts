/** Whose allowance of map loads a stage may use up: small, known, permitted, and within the budget of the target file. */
import { type Caller, callersWith, roleCaller } from "../callers/callers.ts";
import { oncePerView, type TargetView } from "../callers/target-view.ts";

/** More mints than this cannot be made in a stage, so such organizations would prove nothing. */
const REACHABLE = 600;
const OF_A_TIER = 4;

const EXPENDABLE = ["publishable_expendable", "publishable_expendable_paid"] as const;

/**
 * Map loads that an organization has left: up to its allowance on Free, up to five times on a paid plan (items 185, 206).
 * Where nobody could read what is used, this is the most that it can be.
 */
export const leftAtMost = ({ tier, allowance, used }: Caller): number =>
  (tier === "Free" ? 1 : 5) * (allowance ?? 0) - (used ?? 0);

const candidates = (view: TargetView): Caller[] => {
  const tenants = callersWith(view, "publishable").filter(({ name }) => name.startsWith("tenant:"));
  const expendable = EXPENDABLE.flatMap((role) => roleCaller(view, role, "publishable") ?? []);
  const orgs = new Set(tenants.map(({ org }) => org));
  return [...tenants, ...expendable.filter(({ org }) => !orgs.has(org))];
};

/** Alternately of Free and paid plans, the smallest first, as many as the budget has room for. */
export const quotaMinters = oncePerView((view: TargetView): Caller[] => {
  if (!view.permits.quotaBurn) return [];
  const within = candidates(view).filter((caller) => {
    const isKnown = caller.allowance !== undefined && (caller.tier === "Free" || caller.tier === "Pro");
    return isKnown && leftAtMost(caller) > 0 && leftAtMost(caller) <= REACHABLE;
  });
  const of = (tier: "Free" | "Pro"): Caller[] =>
    within.filter((caller) => caller.tier === tier).sort((a, b) => leftAtMost(a) - leftAtMost(b));
  const [free, paid] = [of("Free"), of("Pro")];
  const chosen: Caller[] = [];
  let spends = 0;
  for (let at = 0; at < OF_A_TIER; at++) {
    for (const caller of [free[at], paid[at]]) {
      if (caller === undefined || spends + leftAtMost(caller) > (view.budget?.mapLoads ?? Number.POSITIVE_INFINITY))
        continue;
      chosen.push(caller);
      spends += leftAtMost(caller);
    }
  }
  return chosen;
});

export const quotaMintersMissing = (view: TargetView): string[] => {
  if (!view.permits.quotaBurn)
    return ["`permits.quota_burn`: true, because tenants or roles have their allowance used up"];
  if (quotaMinters(view).length > 0) return [];
  const budget = view.budget?.mapLoads;
  const bought = budget === undefined ? "" : ` and fits \`budget.map_loads\` (${budget})`;
  return [
    `a tenant with a publishable key, its \`tier\` and a \`limit\` of which at most ${REACHABLE} map loads are left${bought}, ` +
      "or the role `publishable_expendable` or `publishable_expendable_paid` with its `limit`",
  ];
};

/**
 * The load of broken-dependency, and in every fourth call a mint of an organization with one map load left: one of them after
 * the other, so that whenever a fault comes, some have had their last unit, some take it while it is in, and some have it yet
 * to take. Then all of them again, so that a unit that was given back is taken by somebody.
 */
import { type Caller, callersWith } from "../callers/callers.ts";
import { oncePerView, type TargetView } from "../callers/target-view.ts";
import { turnsOf } from "../callers/tenants.ts";
import { exchangeStep } from "../step.ts";
import { storyOf } from "../story.ts";
import { brokenDependency } from "./broken-dependency.ts";
import { leftAtMost } from "./tile-quota-minters.ts";

const EVERY = 4;
/** Mints of an organization when its turn comes: the second finds nothing left. */
const MINTS_EACH = 2;
/** Before that no fault is in: it is waited for until calls are steady. */
const FIRST = 8;
const ENOUGH = 8;

const withOneLeft = oncePerView((view: TargetView): readonly Caller[] =>
  callersWith(view, "publishable").filter((caller) => caller.allowance === 1 && leftAtMost(caller) >= 1),
);
const again = oncePerView((view: TargetView) => turnsOf(withOneLeft(view)));

export const lastUnits = storyOf({
  name: "last-units",
  purpose: "reads and metered calls, and mints that take the last map load of many organizations, beside a broken link",
  missing: (view) => {
    const lacking = view.permits.quotaBurn ? [] : ["`permits.quota_burn`: true, because allowances are used up"];
    const few = withOneLeft(view).length < ENOUGH;
    const tenants = `${ENOUGH} tenants with a publishable key, \`limit\` 1 and one map load left`;
    return [...brokenDependency.missing(view), ...lacking, ...(few ? [tenants] : [])];
  },
  profile: brokenDependency.profile,
  sessions: brokenDependency.sessions,
  plan: (seed, i, view) => {
    const turn = Math.floor(i / EVERY);
    const minters = withOneLeft(view);
    const isMint = i % EVERY === EVERY - 1 && turn >= FIRST && minters.length > 0;
    if (!isMint) return brokenDependency.plan(seed, i - turn, view);
    const first = minters[Math.floor((turn - FIRST) / MINTS_EACH)];
    return [exchangeStep(view, i, (first ?? again(view)(turn)).name, "tile")];
  },
});

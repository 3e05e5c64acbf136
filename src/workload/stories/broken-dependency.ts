/**
 * The load beside a fault: reads and metered map loads of many organizations in turn, every one of which needs the key
 * service and the limiter, and none of which holds a slot for longer than its decision takes. So what comes back tells of
 * the dependency and of nothing else, and what was charged for a call without an answer shows in the ledger.
 */
import { constant } from "../load-profiles.ts";
import { stepOf } from "../step.ts";
import { storyOf, tenantsMissing } from "../story.ts";
import { oncePerView, type TargetView, tenantsWith } from "../target-view.ts";
import { inTurn } from "../tenants.ts";

// Tenants with little left are for the stages about quotas.
const PLENTY = 10_000;

const callers = oncePerView((view: TargetView) => {
  const all = tenantsWith(view, "server");
  const plenty = all.filter(({ allowance }) => allowance === undefined || allowance >= PLENTY);
  return plenty.length > 0 ? plenty : all;
});

export const brokenDependency = storyOf({
  name: "broken-dependency",
  purpose: "reads and metered calls of many organizations, beside a broken link",
  missing: (view) => tenantsMissing(view, "server", 2),
  profile: (_view, { ratePerS = 30, durationS = 15 } = {}) => constant(ratePerS, durationS),
  plan: (_seed, i, view) => {
    const { org } = inTurn(callers(view), Math.floor(i / 2));
    const route = i % 2 === 0 ? "design.styles" : "maps.loads";
    return [stepOf(view, i, { route, credential: { as: "server", of: `tenant:${org}` } })];
  },
});

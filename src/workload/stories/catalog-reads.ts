/** The cheapest answers there are, from many organizations in turn: what the front of the API costs by itself. */
import { constant } from "../load-profiles.ts";
import { stepOf } from "../step.ts";
import { storyOf, tenantsMissing } from "../story.ts";
import { oncePerView, type TargetView, tenantsWith } from "../target-view.ts";
import { inTurn } from "../tenants.ts";

const CATALOGS = ["design.styles", "design.samples", "design.themes"] as const;

const servers = oncePerView((view: TargetView) => tenantsWith(view, "server"));

export const catalogReads = storyOf({
  name: "catalog-reads",
  purpose: "catalog reads by server keys: the cost of deciding, with next to no work behind it",
  missing: (view) => tenantsMissing(view, "server", 1),
  // Below what the keys may ask for, all together.
  profile: (view, { ratePerS, durationS = 10 } = {}) => {
    const allowed = 0.7 * servers(view).length * (view.limits.rate_per_s ?? 50);
    return constant(ratePerS ?? Math.max(1, Math.min(200, allowed)), durationS);
  },
  plan: (_seed, i, view) => {
    const tenant = inTurn(servers(view), i);
    const route = inTurn(CATALOGS, Math.floor(i / servers(view).length) + i);
    return [stepOf(view, i, { route, credential: { as: "server", of: `tenant:${tenant.org}` } })];
  },
});

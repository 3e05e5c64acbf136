/** The cheapest answers there are, from many organizations in turn: what the front of the API costs by itself. */
import { constant } from "../profiles.ts";
import { stepOf } from "../step.ts";
import { storyOf, tenantsMissing } from "../story.ts";
import { inTurn } from "../tenants.ts";
import { oncePerWorld, tenantsWith, type World } from "../world.ts";

const CATALOGS = ["design.styles", "design.samples", "design.themes"] as const;

const servers = oncePerWorld((world: World) => tenantsWith(world, "server"));

export const catalogReads = storyOf({
  name: "catalog-reads",
  purpose: "catalog reads by server keys: the cost of deciding, with next to no work behind it",
  missing: (world) => tenantsMissing(world, "server", 1),
  // Below what the keys may ask for, all together.
  profile: (world, { ratePerS, durationS = 10 } = {}) => {
    const allowed = 0.7 * servers(world).length * (world.limits.rate_per_s ?? 50);
    return constant(ratePerS ?? Math.max(1, Math.min(200, allowed)), durationS);
  },
  plan: (_seed, i, world) => {
    const tenant = inTurn(servers(world), i);
    const route = inTurn(CATALOGS, Math.floor(i / servers(world).length) + i);
    return [stepOf(world, i, { route, credential: { as: "server", of: `tenant:${tenant.org}` } })];
  },
});

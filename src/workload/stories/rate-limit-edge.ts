/**
 * Two keys asked at twice their rate, with cheap calls, so that `rate_limited` is met and no in-flight cap is: within any
 * window no more may pass than burst plus rate, and no less than that is owed (items 214, 230).
 */
import { constant } from "../profiles.ts";
import { stepOf } from "../step.ts";
import { storyOf, tenantsMissing } from "../story.ts";
import { inTurn } from "../tenants.ts";
import { oncePerWorld, tenantsWith, type World } from "../world.ts";

const KEYS = 2;

const asked = oncePerWorld((world: World) => tenantsWith(world, "server").slice(0, KEYS));

export const rateLimitEdge = storyOf({
  name: "rate-limit-edge",
  purpose: "two keys at twice their rate: the bucket neither leaks nor grows at a window's edge",
  missing: (world) => tenantsMissing(world, "server", KEYS),
  // Long enough for the burst to be gone in the first third.
  profile: (world, { ratePerS, durationS } = {}) => {
    const rate = world.limits.rate_per_s ?? 50;
    const burst = world.limits.burst ?? 2 * rate;
    return constant(ratePerS ?? 2 * KEYS * rate, durationS ?? Math.max(6, Math.ceil((3 * burst) / rate)));
  },
  plan: (_seed, i, world) => {
    const { org } = inTurn(asked(world), i);
    return [stepOf(world, i, { route: "design.themes", credential: { as: "server", of: `tenant:${org}` } })];
  },
});

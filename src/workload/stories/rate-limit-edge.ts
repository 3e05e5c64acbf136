/**
 * Two keys asked at twice their rate, with cheap calls, so that `rate_limited` is met and no in-flight cap is: within any
 * window no more may pass than burst plus rate, and no less than that is owed (items 214, 230).
 */
import { constant } from "../load-profiles.ts";
import { stepOf } from "../step.ts";
import { storyOf, tenantsMissing } from "../story.ts";
import { oncePerView, type TargetView, tenantsWith } from "../target-view.ts";
import { inTurn } from "../tenants.ts";

const KEYS = 2;

const asked = oncePerView((view: TargetView) => tenantsWith(view, "server").slice(0, KEYS));

export const rateLimitEdge = storyOf({
  name: "rate-limit-edge",
  purpose: "two keys at twice their rate: the bucket neither leaks nor grows at a window's edge",
  missing: (view) => tenantsMissing(view, "server", KEYS),
  // Long enough for the burst to be gone in the first third.
  profile: (view, { ratePerS, durationS } = {}) => {
    const rate = view.limits.rate_per_s ?? 50;
    const burst = view.limits.burst ?? 2 * rate;
    return constant(ratePerS ?? 2 * KEYS * rate, durationS ?? Math.max(6, Math.ceil((3 * burst) / rate)));
  },
  plan: (_seed, i, view) => {
    const { org } = inTurn(asked(view), i);
    return [stepOf(view, i, { route: "design.themes", credential: { as: "server", of: `tenant:${org}` } })];
  },
});

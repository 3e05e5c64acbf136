/**
 * Three times as many streams as the deployment can carry, so that `b2b_overloaded` is steady (item 210). Organizations
 * take turns strictly: what is admitted is spread so evenly that none comes near its own cap or its key's rate, and every
 * shed is the deployment's, not an organization's.
 */
import { constant } from "../load-profiles.ts";
import { stepOf } from "../step.ts";
import { capacityPerS, storyOf, tenantsMissing } from "../story.ts";
import { oncePerView, type TargetView, tenantsWith } from "../target-view.ts";
import { inTurn } from "../tenants.ts";

const servers = oncePerView((view: TargetView) => tenantsWith(view, "server"));

/**
 * Tenants needed: admitted calls may fill the whole deployment without any organization holding more than half of its own
 * cap, and without any key being asked more often than two thirds of its rate.
 */
export const chatTenantsNeeded = (view: TargetView): number => {
  const { limits } = view;
  const held = (limits.global_in_flight ?? limits.slots ?? 64) * (limits.replicas ?? 1);
  const capacity = capacityPerS(limits) ?? 20;
  const bySlots = Math.ceil((2 * held) / (limits.org_in_flight ?? 32));
  const byRate = Math.ceil((1.5 * capacity) / (limits.rate_per_s ?? 50));
  return Math.max(2, bySlots, byRate);
};

export const chatPastCapacity = storyOf({
  name: "chat-past-capacity",
  purpose: "three times the streams that fit, from many organizations evenly: overload of the whole deployment",
  missing: (view) => tenantsMissing(view, "server", chatTenantsNeeded(view)),
  profile: (view, { ratePerS, durationS = 10 } = {}) =>
    constant(ratePerS ?? Math.max(10, Math.round(3 * (capacityPerS(view.limits) ?? 20))), durationS),
  plan: (_seed, i, view) => {
    const { org } = inTurn(servers(view), i);
    return [stepOf(view, i, { route: "chat.control", credential: { as: "server", of: `tenant:${org}` } })];
  },
});

/**
 * One organization opens more streams at once than it may hold and is shed for it (`org_overloaded`, item 211); the others
 * go on as if nothing were. Its streams come in bursts, because a steady flow would meet the rate of its key first.
 */
import { constant } from "../load-profiles.ts";
import { type StepWish, stepOf } from "../step.ts";
import { capacityPerS, storyOf, tenantsMissing } from "../story.ts";
import { oncePerView, type TargetView, type TenantInView, tenantsWith } from "../target-view.ts";
import { inTurn } from "../tenants.ts";

type Cast = { noisy: TenantInView | undefined; quiet: TenantInView[] };

const castOf = oncePerView((view: TargetView): Cast => {
  const servers = tenantsWith(view, "server");
  const noisy = servers.find(({ inFlightCap }) => inFlightCap !== undefined) ?? servers[0];
  return { noisy, quiet: servers.filter((tenant) => tenant !== noisy) };
});

/**
 * The noisy organization's calls stand together: `length` of every `every` calls are its own. A burst is twice the cap, or
 * as much of it as the key's bucket allows.
 */
export const noisyCalls = oncePerView((view: TargetView): { length: number; every: number } => {
  const cap = castOf(view).noisy?.inFlightCap ?? view.limits.org_in_flight ?? 32;
  const length = Math.max(4, 2 * cap);
  return { length, every: 4 * length };
});

/** Whether call `i` belongs to a burst. */
export const burstOf = (view: TargetView, i: number): boolean => {
  const { length, every } = noisyCalls(view);
  return i % every < length;
};

export const noisyNeighbour = storyOf({
  name: "noisy-neighbour",
  purpose: "one organization runs into its own cap while the others stay unharmed",
  missing: (view) => tenantsMissing(view, "server", 4),
  // A burst has to arrive faster than its own streams end: twice the cap within two thirds of a stream's length.
  profile: (view, { ratePerS, durationS = 12 } = {}) => {
    const { length } = noisyCalls(view);
    const serviceS = (view.limits.service_ms ?? 200) / 1000;
    const fastEnough = (1.5 * length) / serviceS;
    const capacity = capacityPerS(view.limits) ?? fastEnough;
    return constant(ratePerS ?? Math.max(40, Math.min(400, fastEnough, 3 * capacity)), durationS);
  },
  plan: (_seed, i, view) => {
    const { noisy, quiet } = castOf(view);
    if (noisy === undefined) return [];
    const bursting = burstOf(view, i) || quiet.length === 0;
    const org = bursting ? noisy.org : inTurn(quiet, i).org;
    // The quiet ones read, so that the deployment as a whole has room.
    const route = bursting ? "chat.control" : i % 8 === 0 ? "poi.enrich" : "design.styles";
    const wish: StepWish = { route, credential: { as: "server", of: `tenant:${org}` } };
    return [stepOf(view, i, wish)];
  },
  noisy: (view) => {
    const { noisy } = castOf(view);
    return noisy === undefined ? [] : [noisy.org];
  },
});

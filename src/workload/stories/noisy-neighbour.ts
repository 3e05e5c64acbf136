/**
 * One organization opens more streams at once than it may hold and is shed for it (`org_overloaded`, item 211); the others
 * go on as if nothing were. Its streams come in bursts, because a steady flow would meet the rate of its key first.
 */
import { constant } from "../profiles.ts";
import { type StepWish, stepOf } from "../step.ts";
import { capacityPerS, storyOf, tenantsMissing } from "../story.ts";
import { inTurn } from "../tenants.ts";
import { oncePerWorld, type TenantInWorld, tenantsWith, type World } from "../world.ts";

type Cast = { noisy: TenantInWorld | undefined; quiet: TenantInWorld[] };

const castOf = oncePerWorld((world: World): Cast => {
  const servers = tenantsWith(world, "server");
  const noisy = servers.find(({ inFlightCap }) => inFlightCap !== undefined) ?? servers[0];
  return { noisy, quiet: servers.filter((tenant) => tenant !== noisy) };
});

/**
 * The noisy organization's calls stand together: `length` of every `every` calls are its own. A burst is twice the cap, or
 * as much of it as the key's bucket allows.
 */
export const noisyCalls = oncePerWorld((world: World): { length: number; every: number } => {
  const cap = castOf(world).noisy?.inFlightCap ?? world.limits.org_in_flight ?? 32;
  const length = Math.max(4, 2 * cap);
  return { length, every: 4 * length };
});

/** Whether call `i` belongs to a burst. */
export const burstOf = (world: World, i: number): boolean => {
  const { length, every } = noisyCalls(world);
  return i % every < length;
};

export const noisyNeighbour = storyOf({
  name: "noisy-neighbour",
  purpose: "one organization runs into its own cap while the others stay unharmed",
  missing: (world) => tenantsMissing(world, "server", 4),
  // A burst has to arrive faster than its own streams end: twice the cap within two thirds of a stream's length.
  profile: (world, { ratePerS, durationS = 12 } = {}) => {
    const { length } = noisyCalls(world);
    const serviceS = (world.limits.service_ms ?? 200) / 1000;
    const fastEnough = (1.5 * length) / serviceS;
    const capacity = capacityPerS(world.limits) ?? fastEnough;
    return constant(ratePerS ?? Math.max(40, Math.min(400, fastEnough, 3 * capacity)), durationS);
  },
  plan: (_seed, i, world) => {
    const { noisy, quiet } = castOf(world);
    if (noisy === undefined) return [];
    const bursting = burstOf(world, i) || quiet.length === 0;
    const org = bursting ? noisy.org : inTurn(quiet, i).org;
    // The quiet ones read, so that the deployment as a whole has room.
    const route = bursting ? "chat.control" : i % 8 === 0 ? "poi.enrich" : "design.styles";
    const wish: StepWish = { route, credential: { as: "server", of: `tenant:${org}` } };
    return [stepOf(world, i, wish)];
  },
  noisy: (world) => {
    const { noisy } = castOf(world);
    return noisy === undefined ? [] : [noisy.org];
  },
});

/**
 * Many maps opened at once by organizations whose allowance ends in the middle of it: exactly as many mints may pass as
 * the allowance has left, whatever the concurrency (items 79, 185, 204-207). Meanwhile one noisy organization opens its
 * own streams by the dozen and meets its own cap (item 211), while the others mint on.
 */
import { constant } from "../load-profiles.ts";
import { saltOf, uniform } from "../random.ts";
import { exchangeStep, type Step, stepOf } from "../step.ts";
import { capacityPerS, storyOf } from "../story.ts";
import { oncePerView, type TargetView, type TenantInView } from "../target-view.ts";
import { chooserOf, type Weighted } from "../tenants.ts";
import { burstOf, noisyCalls } from "./noisy-neighbour.ts";

const WHO = saltOf("tile-quota-stampede who");

/** Map loads that a tenant has left: up to its allowance on Free, up to five times on a paid plan (items 185, 206). */
const left = (tenant: TenantInView): number =>
  (tenant.tier === "Free" ? 1 : 5) * (tenant.allowance ?? 0) - (tenant.used ?? 0);

/** Mints past this many can not be reached in a stage, so such tenants would prove nothing. */
const REACHABLE = 600;

type Cast = { minters: TenantInView[]; noisy: TenantInView | undefined; choose: (u: number) => TenantInView };

const castOf = oncePerView((view: TargetView): Cast => {
  const able = view.tenants.filter(
    (tenant) =>
      tenant.publishable && tenant.tier !== undefined && tenant.tier !== null && tenant.allowance !== undefined,
  );
  const within = able.filter((tenant) => left(tenant) > 0 && left(tenant) <= REACHABLE);
  const of = (tier: "Free" | "Pro") =>
    within
      .filter((tenant) => tenant.tier === tier)
      .sort((a, b) => left(a) - left(b))
      .slice(0, 4);
  const minters = [...of("Free"), ...of("Pro")];
  // Weighed by what is left, so that all of them cross their line at about the same moment.
  const choices: Weighted<TenantInView>[] = minters.map((item) => ({ item, weight: left(item) }));
  const noisy = view.tenants.find(
    ({ org, server, tier }) => server && tier !== "Free" && !minters.some((m) => m.org === org),
  );
  return { minters, noisy, choose: chooserOf(choices) };
});

/** Of these calls each is a mint, unless the noisy organization has its burst. */
const plan = (seed: number, i: number, view: TargetView): Step[] => {
  const { noisy, choose, minters } = castOf(view);
  if (noisy !== undefined && burstOf(view, i)) {
    return [stepOf(view, i, { route: "chat.control", credential: { as: "server", of: `tenant:${noisy.org}` } })];
  }
  if (minters.length === 0) return [];
  return [exchangeStep(view, i, `tenant:${choose(uniform(seed, i, WHO)).org}`, "tile")];
};

export const tileQuotaStampede = storyOf({
  name: "tile-quota-stampede",
  purpose: "concurrent tile mints across the allowance of Free and paid organizations, beside a noisy one",
  missing: (view) => {
    const { minters, noisy } = castOf(view);
    const missing: string[] = [];
    for (const tier of ["Free", "Pro"] as const) {
      if (!minters.some((tenant) => tenant.tier === tier)) {
        missing.push(`a ${tier} tenant with a publishable key and \`limit\`, of which a stage can use up what is left`);
      }
    }
    if (noisy === undefined) missing.push("a paid tenant with a server key that mints nothing");
    return missing;
  },
  // Half as many mints again as there are loads left, fast enough for the noisy one to outrun its own streams.
  profile: (view, { ratePerS, durationS } = {}) => {
    const mints = 1.5 * castOf(view).minters.reduce((sum, tenant) => sum + left(tenant), 0);
    const { every, length } = noisyCalls(view);
    const total = Math.ceil((mints * every) / (every - length));
    const capacity = capacityPerS(view.limits);
    const rate = ratePerS ?? Math.min(400, Math.max(100, Math.round(1.5 * (capacity ?? 100))));
    return constant(rate, durationS ?? Math.max(4, Math.ceil(total / rate)));
  },
  plan,
  noisy: (view) => {
    const { noisy } = castOf(view);
    return noisy === undefined ? [] : [noisy.org];
  },
});

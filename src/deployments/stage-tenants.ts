/** Who calls the embedded deployment in one stage, where its tenants at large do not fit. Made anew by its operator each time. */
import { controlSend } from "../client/control-planes.ts";
import { makeSecret } from "../platform/keys/secret.ts";
import { planSeed, type Seed, type SeedTenant } from "../platform/seed.ts";
import { redactor } from "../supervision/redaction.ts";
import type { Target } from "../target/target.ts";

/** Three tenants alone, or organizations with one map load left beside the others; absent: those of the whole run. */
type Tenants = "few" | "last-units" | undefined;

/** So few that calls of one key meet. */
const FEW = 3;
/** As many as come to their last unit one after the other, before, while and after a fault is in. */
const LAST_UNITS = 24;

/** One map load left, of Free's allowance and of five times a paid one. */
const lastUnitTenants = (): SeedTenant[] =>
  Array.from({ length: LAST_UNITS }, (_, at) => {
    const org = `org_u${String(at + 1).padStart(2, "0")}`;
    return at % 2 === 0 ? { org, tier: "Free", allowance: 1, used: 0 } : { org, tier: "Pro", allowance: 1, used: 4 };
  });

const seedOf = (secret: Parameters<typeof planSeed>[1]["makeSecret"], nowMs: number): Seed => {
  const tenants = lastUnitTenants();
  const orgs = new Set(tenants.map(({ org }) => org));
  const { organizations, keys, target } = planSeed(tenants, { makeSecret: secret, adminToken: () => "", nowMs });
  return {
    organizations: organizations.filter(({ id }) => orgs.has(id)),
    keys: keys.filter(({ org_id }) => orgs.has(org_id)),
    target,
  };
};

const withMore = (target: Target, { target: { tenants } }: Seed): Target => ({
  ...target,
  tenants: [...(target.tenants ?? []), ...tenants],
});

/** What a plan may know of the stage's target before anything is started. */
export const plannedTenants = (wish: Tenants, target: Target): Target => {
  if (wish === "last-units")
    return withMore(
      target,
      seedOf(() => "planned", 0),
    );
  return wish === "few" ? { ...target, tenants: (target.tenants ?? []).slice(0, FEW) } : target;
};

/** Of a deployment of ours, whose key service can be operated. */
export const stageTenants = async (wish: Tenants, target: Target): Promise<Target> => {
  const keys = target.control?.keys;
  if (wish !== "last-units" || keys === undefined || keys === null) return plannedTenants(wish, target);
  const seed = seedOf(makeSecret, Date.now());
  for (const { secret } of seed.keys) redactor.register(secret);
  for (const organization of seed.organizations) await controlSend("POST", `${keys}/orgs`, organization);
  for (const key of seed.keys) await controlSend("POST", `${keys}/keys`, key);
  return withMore(target, seed);
};

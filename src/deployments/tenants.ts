/** The tenants of our deployments. Their numbers fit the stages of `run smoke` and two cores. */
import { controlSend } from "../client/control-planes.ts";
import { REFERENCE_STREAM_ENDS } from "../contract/streams.ts";
import { makeSecret, mintAdminToken } from "../platform/keys/secret.ts";
import { planSeed, type Seed, type SeedTenant } from "../platform/seed.ts";
import { redactor } from "../supervision/redaction.ts";
import type { Target } from "../target/target.ts";

/** Slots, caps, rates and budgets of the reference deployment that suites and the random search are made for. */
export const EMBEDDED_LIMITS = {
  replicas: 1,
  // Few enough for two cores to offer three times the capacity.
  slots: 24,
  service_ms: 300,
  global_in_flight: 24,
  org_in_flight: 8,
  rate_per_s: 60,
  burst: 120,
  // How long the platform waits for its dependencies, and how old a cached key record may be.
  limiter_budget_ms: 250,
  key_service_budget_ms: 1_000,
  revocation_budget_ms: 1_000,
} as const;

const LOAD_TENANTS = 12;
const numbered = (letter: string, at: number): string => `org_${letter}${String(at + 1).padStart(2, "0")}`;

/** Paid organizations whose allowance no stage can use up. */
export const loadTenants = (count = LOAD_TENANTS): SeedTenant[] =>
  Array.from({ length: count }, (_, at) => ({ org: numbered("t", at), tier: "Pro", allowance: 1_000_000, used: 0 }));

/** Three Free tenants stop at their allowance, two paid ones at five times it; one of each begins partly used. */
const QUOTA_TENANTS: readonly SeedTenant[] = [
  { org: "org_q01", tier: "Free", allowance: 60, used: 0 },
  { org: "org_q02", tier: "Free", allowance: 40, used: 15 },
  { org: "org_q03", tier: "Free", allowance: 25, used: 0 },
  { org: "org_q04", tier: "Pro", allowance: 20, used: 0 },
  { org: "org_q05", tier: "Pro", allowance: 12, used: 20 },
];
export const embeddedTenants = (): SeedTenant[] => [...loadTenants(), ...QUOTA_TENANTS];

export const addressesOf = (base: string) => ({
  base_url: base,
  key_management_url: base,
  tile_url: `${base}/maps/tiles/{z}/{x}/{y}`,
});

export const referenceTarget = (base: string, seed: Seed, more: Pick<Target, "name"> & Partial<Target>): Target => ({
  schema: "floodgate/target@1",
  ...addressesOf(base),
  shedding: "fixed",
  stream_end: REFERENCE_STREAM_ENDS,
  limits: EMBEDDED_LIMITS,
  permits: { writes: true, quota_burn: true, chaos: true },
  tenants: seed.target.tenants,
  credentials: seed.target.credentials as NonNullable<Target["credentials"]>,
  ...more,
});

/** `adminSecret`: what the deployment signs the tokens of organization admins with. */
export const seedNow = (tenants: readonly SeedTenant[], adminSecret: string, adminTokenS?: number): Seed => {
  const nowMs = Date.now();
  const signed = { secret: adminSecret, nowMs, expiresInS: adminTokenS };
  return planSeed(tenants, { makeSecret, adminToken: (org) => mintAdminToken({ ...signed, org }), nowMs });
};

export const sendSeed = async (control: string, { organizations, keys }: Seed): Promise<void> => {
  for (const { secret } of keys) redactor.register(secret);
  for (const organization of organizations) await controlSend("POST", `${control}/orgs`, organization);
  for (const key of keys) await controlSend("POST", `${control}/keys`, key);
};

/** A seed for a plan, before anything is started; its secrets are placeholders. */
const plannedSeed = (tenants: readonly SeedTenant[]): Seed =>
  planSeed(tenants, { makeSecret: () => "planned", adminToken: () => "planned", nowMs: 0 });

export const plannedEmbedded = (): Target => {
  const control = { api: ["http://127.0.0.1"] };
  return referenceTarget("http://127.0.0.1/v1", plannedSeed(embeddedTenants()), { name: "embedded", control });
};

/** `few`: three tenants; `last-units`: added organizations with one map load left; absent: the run's tenants. */
type Tenants = "few" | "last-units" | undefined;

/** Few enough that calls with the same key overlap. */
const FEW = 3;
/** Enough organizations to reach a last unit before, during and after a fault. */
const LAST_UNITS = 24;

/** One map load is left: a Free organization stops at its allowance, a paid one at five times it. */
const LAST_UNIT_TENANTS = Array.from({ length: LAST_UNITS }, (_, at): SeedTenant => {
  const org = numbered("u", at);
  return at % 2 === 0 ? { org, tier: "Free", allowance: 1, used: 0 } : { org, tier: "Pro", allowance: 1, used: 4 };
});

const withMore = (target: Target, { target: { tenants } }: Seed): Target => ({
  ...target,
  tenants: [...(target.tenants ?? []), ...tenants],
});

export const plannedTenants = (kind: Tenants, target: Target): Target => {
  if (kind === "last-units") return withMore(target, plannedSeed(LAST_UNIT_TENANTS));
  return kind === "few" ? { ...target, tenants: (target.tenants ?? []).slice(0, FEW) } : target;
};

/** The stage's target; the key service's control plane makes `last-units` organizations anew each time. */
export const stageTenants = async (kind: Tenants, target: Target): Promise<Target> => {
  const control = target.control?.keys;
  if (kind !== "last-units" || control === undefined) return plannedTenants(kind, target);
  const all = seedNow(LAST_UNIT_TENANTS, "nobody");
  const own = new Set(LAST_UNIT_TENANTS.map(({ org }) => org));
  const organizations = all.organizations.filter(({ id }) => own.has(id));
  const seed = { ...all, organizations, keys: all.keys.filter(({ org_id }) => own.has(org_id)) };
  await sendSeed(control, seed);
  return withMore(target, seed);
};

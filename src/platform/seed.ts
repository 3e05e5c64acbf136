/**
 * The demo data: an organization and a key for each role of a target file, tenants that carry load, and the target file
 * that names them. Ids are fixed and secrets new, so seeding twice leaves one set.
 */
import { HARD_STOP_FACTOR } from "../contract/refusals.ts";
import { SCOPES } from "../contract/routes.ts";
import { type Organization, TIER_DEFAULTS } from "../core/call.ts";
import type { KeyInput, KeyStore } from "./keys/store.ts";
import type { Limiter } from "./ports.ts";

type SeedOrganization = Partial<Organization> & Pick<Organization, "id" | "tier"> & { map_loads_used: number };
type SeedKey = KeyInput & { id: string; secret: string };

export type SeedCredential = {
  key: string;
  origin?: string;
  org: string;
  limit?: number;
  tier?: "Free" | "Pro";
  basemap_style_id?: string;
};

const ORIGIN = "https://app.example";
const OTHER_ORIGIN = "https://other.example";
/** Documentation addresses (RFC 5737): no caller comes from there. */
const FOREIGN_IPS = ["192.0.2.0/24"];
/** The allowance of organizations that have used it up, or that a run may use up. */
const TINY_LOADS = 5;
const FULL_KEY_LIMIT = 2;

/** An organization that has used nothing this month, with its tier's allowance unless stated otherwise. */
const organization = (id: string, tier: Organization["tier"], more: Partial<SeedOrganization> = {}) => ({
  id,
  tier,
  map_load_allowance: tier === null ? 0 : TIER_DEFAULTS[tier].map_load_allowance,
  map_loads_used: 0,
  ...more,
});

const ORGANIZATIONS: readonly SeedOrganization[] = [
  organization("org_a", "Pro"),
  organization("org_b", "Pro"),
  organization("org_d", "Free"),
  organization("org_x", "Free", { map_load_allowance: TINY_LOADS, map_loads_used: TINY_LOADS }),
  organization("org_h", "Pro", { map_load_allowance: TINY_LOADS, map_loads_used: TINY_LOADS * HARD_STOP_FACTOR }),
  organization("org_e", "Free", { map_load_allowance: TINY_LOADS }),
  organization("org_p", "Pro", { map_load_allowance: TINY_LOADS }),
  organization("org_m", "Pro", { basemap_style_id: "svc-dusk" }),
  organization("org_f", "Free"),
  organization("org_n", null),
  organization("org_l", "Pro", { key_limit: FULL_KEY_LIMIT }),
];

type RoleKey = { org: string; key?: Partial<KeyInput>; states?: Partial<SeedCredential> };

const without = (scope: string): Pick<KeyInput, "scopes"> => ({ scopes: SCOPES.filter((name) => name !== scope) });

/** The key of each role, where it differs from an unrestricted one of full scope. The role's name gives its kind. */
const ROLE_KEYS: Readonly<Record<string, RoleKey>> = {
  publishable: { org: "org_a" },
  server: { org: "org_a" },
  // Another origin, so that it can be tried on the first organization's key.
  publishable_other_org: { org: "org_b", key: { allowed_origins: [OTHER_ORIGIN] } },
  publishable_no_ai: { org: "org_a", key: without("ai") },
  publishable_tile_only: { org: "org_a", key: { products: ["tile"] } },
  publishable_downgraded: { org: "org_d" },
  publishable_exhausted: { org: "org_x", states: { limit: TINY_LOADS, tier: "Free" } },
  publishable_hard_stop: { org: "org_h", states: { limit: TINY_LOADS, tier: "Pro" } },
  publishable_expendable: { org: "org_e", states: { limit: TINY_LOADS, tier: "Free" } },
  publishable_expendable_paid: { org: "org_p", states: { limit: TINY_LOADS, tier: "Pro" } },
  publishable_basemap: { org: "org_m", states: { basemap_style_id: "svc-dusk" } },
  server_no_design: { org: "org_a", key: without("design") },
  server_foreign_ip: { org: "org_a", key: { allowed_ips: FOREIGN_IPS } },
  server_downgraded: { org: "org_d" },
  revoked: { org: "org_a", key: { kind: "publishable", status: "revoked" } },
  expired: { org: "org_a", key: { kind: "publishable", status: "expired" } },
};

const ADMINS: Readonly<Record<string, string>> = {
  admin_pro: "org_a",
  admin_free: "org_f",
  admin_no_plan: "org_n",
  admin_key_limit: "org_l",
};

export type SeedTenant = { org: string; tier: "Free" | "Pro"; allowance: number; used: number };

/** Tenants that carry load; of every ten, one on Free and one paid have an allowance that a stage can use up. */
export const demoTenants = (count: number): SeedTenant[] =>
  Array.from({ length: count }, (_, at): SeedTenant => {
    const org = `org_t${String(at + 1).padStart(2, "0")}`;
    if (at % 10 === 4) return { org, tier: "Free", allowance: 60, used: 0 };
    if (at % 10 === 9) return { org, tier: "Pro", allowance: 20, used: 0 };
    return { org, tier: "Pro", allowance: 1_000_000, used: 0 };
  });

type Sources = {
  makeSecret(key: { kind: KeyInput["kind"]; env: "live" }): string;
  adminToken(org: string): string;
  nowMs: number;
};

/** Everything that is to be stored, and the part of the target file that states it. */
export const planSeed = (loaded: readonly SeedTenant[], { makeSecret, adminToken, nowMs }: Sources) => {
  const keys: SeedKey[] = [];
  const addKey = (id: string, org: string, kind: KeyInput["kind"], more: Partial<KeyInput> = {}): string => {
    const secret = makeSecret({ kind, env: "live" });
    const allowed_origins = kind === "publishable" ? [ORIGIN] : [];
    const usual = { name: id, scopes: [...SCOPES], vendor_acknowledged: true, allowed_origins };
    keys.push({ id, org_id: org, kind, ...usual, ...more, secret });
    return secret;
  };

  const credentials: Record<string, SeedCredential | { token: string; org: string }> = {};
  for (const [role, { org, key = {}, states }] of Object.entries(ROLE_KEYS)) {
    const kind = key.kind ?? (role.startsWith("server") ? "server" : "publishable");
    const expires_at = role === "expired" ? nowMs - 1_000 : null;
    const [origin = ORIGIN] = key.allowed_origins ?? [];
    const secret = addKey(`key_${role}`, org, kind, { ...key, expires_at });
    credentials[role] = { key: secret, ...(kind === "publishable" && { origin }), org, ...states };
  }
  for (let at = 0; at < FULL_KEY_LIMIT; at += 1) addKey(`key_limit_${at}`, "org_l", "server");
  for (const [role, org] of Object.entries(ADMINS)) credentials[role] = { token: adminToken(org), org };
  const tenants = loaded.map(({ org, tier, allowance: limit }) => {
    const publishable = { key: addKey(`key_${org}_publishable`, org, "publishable"), origin: ORIGIN };
    // Free admits no server key (A15).
    const server = tier === "Pro" ? { key: addKey(`key_${org}_server`, org, "server") } : undefined;
    return { org, tier, limit, publishable, server };
  });
  const others = loaded.map(({ org, tier, allowance, used }) =>
    organization(org, tier, { map_load_allowance: allowance, map_loads_used: used }),
  );
  return { organizations: [...ORGANIZATIONS, ...others], keys, target: { tenants, credentials } };
};

export type Seed = ReturnType<typeof planSeed>;

/** What seeding needs of a role that owns the key records and knows the limiter. */
export type Administration = { keys: Pick<KeyStore, "putOrganization" | "putKey">; limiter: Limiter };

/** Stores a seed. What organizations have used this month is set, not added to. */
export const storeSeed = async (seed: Seed, { keys, limiter }: Administration): Promise<void> => {
  for (const { map_loads_used, ...fields } of seed.organizations) {
    keys.putOrganization(fields);
    await limiter.setUsed(fields.id, "map_loads", map_loads_used);
  }
  for (const key of seed.keys) keys.putKey(key, Date.now());
};

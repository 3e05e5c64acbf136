/**
 * The target file of the second deployment: the initial organizations and keys, one for each role of `verify`, and what the
 * file states about the deployment.
 */
import { randomBytes } from "node:crypto";
import type { Target } from "../../src/target/target.ts";
import { b64 } from "./credentials.ts";
import { capsOf, ORIGIN, OTHER_ORIGIN, rateOf } from "./offer.ts";
import { type ApiState, addKey, addOrg, type Key } from "./state.ts";

type Roles = NonNullable<Target["credentials"]>;

const pk = (key: Key, origin = ORIGIN) => ({ key: key.secret, origin, org: key.org });

const admin = ({ admins, is }: ApiState, of: string) => {
  const claims = { org: of, ...(is("admin-tokens-last-until-2100") ? { exp: 4_102_444_800 } : {}) };
  const token = `${b64({ alg: "RS256" })}.${b64(claims)}.${randomBytes(12).toString("base64url")}`;
  admins.set(token, of);
  return { token, org: of };
};

const tenant = (api: ApiState, name: string) => ({
  org: addOrg(api, name, "Pro"),
  server: { key: addKey(api, name, "sk").secret },
});

/** Keys whose allowance is used up, or may be used up by tests. */
const meteredRoles = (api: ApiState): Roles => {
  const { is } = api;
  const metered = (id: string, tier: "Free" | "Pro", limit: number, used: number) => ({
    ...pk(addKey(api, addOrg(api, id, tier, { limit, used }), "pk")),
    limit,
  });
  return {
    publishable_exhausted: metered("full", "Free", 4, 4),
    publishable_hard_stop: metered("stop", "Pro", 4, 20),
    publishable_expendable: {
      ...metered("burn", "Free", 6, is("comes-spent") ? 9 : is("others-load") ? 2 : 0),
      tier: "Free",
    },
    publishable_expendable_paid: { ...metered("band", "Pro", 4, is("others-load") ? 8 : 0), tier: "Pro" },
  };
};

const adminRoles = (api: ApiState): Roles => {
  const full = api.is("no-keys-left");
  return {
    admin_pro: admin(api, addOrg(api, "mgmt", "Pro", full ? { keyLimit: 0 } : {})),
    admin_free: admin(api, addOrg(api, "free", "Free", { keyLimit: full ? 0 : 3 })),
    admin_no_plan: admin(api, addOrg(api, "none", null)),
    admin_key_limit: admin(api, addOrg(api, "most", "Pro", { keyLimit: 0 })),
  };
};

const rolesOf = (api: ApiState): Roles => {
  const { is } = api;
  const a = addOrg(api, "acme", "Pro", is("comes-spent") ? { limit: 4, used: 20 } : {});
  const add = (kind: Key["kind"], more: Partial<Key> = {}): Key => addKey(api, a, kind, more);
  const bolt = addOrg(api, "bolt", "Pro");
  const down = addOrg(api, "down", "Free");
  const look = addOrg(api, "look", "Pro", { style: "svc-noon" });
  const mapsAlone = is("tile-key-for-maps-alone") ? { scopes: ["maps"] } : {};
  return {
    publishable: pk(add("pk")),
    server: { key: add("sk").secret, org: a },
    publishable_other_org: pk(addKey(api, bolt, "pk", { origins: [OTHER_ORIGIN] }), OTHER_ORIGIN),
    publishable_no_ai: pk(add("pk", { scopes: ["design", "maps"] })),
    publishable_tile_only: pk(add("pk", { products: ["tile"], ...mapsAlone })),
    publishable_downgraded: pk(addKey(api, down, "pk")),
    ...meteredRoles(api),
    publishable_basemap: {
      ...pk(addKey(api, look, "pk")),
      ...(is("older-revision") ? {} : { basemap_style_id: "svc-noon" }),
    },
    server_no_design: { key: add("sk", { scopes: ["ai", "maps"] }).secret, org: a },
    server_foreign_ip: { key: add("sk", { ipOk: false }).secret, org: a },
    server_downgraded: { key: addKey(api, down, "sk").secret, org: down },
    revoked: pk(add("pk", { state: "revoked" })),
    expired: pk(add("pk", { state: "expired" })),
    ...adminRoles(api),
  };
};

export const targetOf = (api: ApiState, base: string): Target => {
  const { is } = api;
  const { perS, burst } = rateOf(api);
  const { own, all } = capsOf(api);
  return {
    schema: "floodgate/target@1",
    name: "api",
    base_url: base,
    tile_url: `${base}/tiles/{z}/{x}/{y}`,
    permits: { writes: true, quota_burn: true, load_max_rps: 150 },
    ...(is("few-connections") ? { transport: { connections: 6 } } : {}),
    ...(is("has-tenants") ? { tenants: ["t1", "t2", "t3", "t4"].map((name) => tenant(api, name)) } : {}),
    shedding: is("states-no-caps") ? "unknown" : "fixed",
    limits: {
      revocation_budget_ms: 0,
      ...(is("states-no-numbers") ? {} : { global_in_flight: all, org_in_flight: own, rate_per_s: perS, burst }),
    },
    credentials: rolesOf(api),
  };
};

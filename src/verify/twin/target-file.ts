/**
 * The target file of the second deployment: the organizations and keys that are there from the start, one for each role of
 * `verify`, and what the file states about the deployment.
 */
import { randomBytes } from "node:crypto";
import type { Target } from "../../drivers/target.ts";
import { b64 } from "./credentials.ts";
import { capsOf, ORIGIN, OTHER_ORIGIN, rateOf } from "./offer.ts";
import { addKey, addOrg, type Key, type World } from "./world.ts";

type Roles = NonNullable<Target["credentials"]>;

const pk = (key: Key, origin = ORIGIN) => ({ key: key.secret, origin, org: key.org });

const admin = ({ admins }: World, of: string) => {
  const token = `${b64({ alg: "RS256" })}.${b64({ org: of })}.${randomBytes(12).toString("base64url")}`;
  admins.set(token, of);
  return { token, org: of };
};

const tenant = (world: World, name: string) => ({
  org: addOrg(world, name, "Pro"),
  server: { key: addKey(world, name, "sk").secret },
});

/** Keys whose allowance is used up, or is there to be used up. */
const meteredRoles = (world: World): Roles => {
  const { is } = world;
  const metered = (id: string, tier: "Free" | "Pro", limit: number, used: number) => ({
    ...pk(addKey(world, addOrg(world, id, tier, { limit, used }), "pk")),
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

const adminRoles = (world: World): Roles => {
  const full = world.is("no-keys-left");
  return {
    admin_pro: admin(world, addOrg(world, "mgmt", "Pro", full ? { keyLimit: 0 } : {})),
    admin_free: admin(world, addOrg(world, "free", "Free", { keyLimit: full ? 0 : 3 })),
    admin_no_plan: admin(world, addOrg(world, "none", null)),
    admin_key_limit: admin(world, addOrg(world, "most", "Pro", { keyLimit: 0 })),
  };
};

const rolesOf = (world: World): Roles => {
  const { is } = world;
  const a = addOrg(world, "acme", "Pro", is("comes-spent") ? { limit: 4, used: 20 } : {});
  const add = (kind: Key["kind"], more: Partial<Key> = {}): Key => addKey(world, a, kind, more);
  const bolt = addOrg(world, "bolt", "Pro");
  const down = addOrg(world, "down", "Free");
  const look = addOrg(world, "look", "Pro", { style: "svc-noon" });
  const mapsAlone = is("tile-key-for-maps-alone") ? { scopes: ["maps"] } : {};
  return {
    publishable: pk(add("pk")),
    server: { key: add("sk").secret, org: a },
    publishable_other_org: pk(addKey(world, bolt, "pk", { origins: [OTHER_ORIGIN] }), OTHER_ORIGIN),
    publishable_no_ai: pk(add("pk", { scopes: ["design", "maps"] })),
    publishable_tile_only: pk(add("pk", { products: ["tile"], ...mapsAlone })),
    publishable_downgraded: pk(addKey(world, down, "pk")),
    ...meteredRoles(world),
    publishable_basemap: {
      ...pk(addKey(world, look, "pk")),
      ...(is("older-revision") ? {} : { basemap_style_id: "svc-noon" }),
    },
    server_no_design: { key: add("sk", { scopes: ["ai", "maps"] }).secret, org: a },
    server_foreign_ip: { key: add("sk", { ipOk: false }).secret, org: a },
    server_downgraded: { key: addKey(world, down, "sk").secret, org: down },
    revoked: pk(add("pk", { state: "revoked" })),
    expired: pk(add("pk", { state: "expired" })),
    ...adminRoles(world),
  };
};

export const targetOf = (world: World, base: string): Target => {
  const { is } = world;
  const { perS, burst } = rateOf(world);
  const { own, all } = capsOf(world);
  return {
    schema: "floodgate/target@1",
    name: "twin",
    base_url: base,
    tile_url: `${base}/tiles/{z}/{x}/{y}`,
    permits: { writes: true, quota_burn: true, load_max_rps: 150 },
    ...(is("few-connections") ? { transport: { connections: 6 } } : {}),
    ...(is("has-tenants") ? { tenants: ["t1", "t2", "t3", "t4"].map((name) => tenant(world, name)) } : {}),
    shedding: is("states-no-caps") ? "unknown" : "fixed",
    limits: {
      ...{ revocation_budget_ms: 0, global_in_flight: all, org_in_flight: own },
      ...{ rate_per_s: perS, burst },
    },
    credentials: rolesOf(world),
  };
};

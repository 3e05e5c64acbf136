import { beforeAll, describe, expect, test } from "vitest";
import type { KeySnapshot } from "../core/call.ts";
import { mapLoadCap, scopeRefusal } from "../core/meters.ts";
import { ADMIN_ROLES, KEY_ROLES } from "../target/roles.ts";
import { asking, localKeys } from "./keys/keys.fixture.ts";
import { hashSecret, makeSecret } from "./keys/secret.ts";
import { openKeyStore } from "./keys/store.ts";
import { localLimiter } from "./limiter/limiter.fixture.ts";
import { openLimiterStore } from "./limiter/store.ts";
import { shiftableClock } from "./ports.ts";
import { demoTenants, planSeed, type Seed, type SeedCredential, storeSeed } from "./seed.ts";

describe("seeding", () => {
  const clock = shiftableClock();
  const store = openKeyStore(":memory:");
  const keys = asking(localKeys(store, clock));
  const limiter = localLimiter(openLimiterStore(":memory:"), clock);
  const plan = (): Seed =>
    planSeed(demoTenants(12), { makeSecret, adminToken: (org) => `token-of-${org}`, nowMs: Date.now() });
  let seed: Seed;
  let first: Seed;
  beforeAll(async () => {
    first = plan();
    await storeSeed(first, { keys: store, limiter });
    seed = plan();
    await storeSeed(seed, { keys: store, limiter });
  });
  const roleOf = async (role: string): Promise<KeySnapshot & { used: number; told: SeedCredential }> => {
    const told = seed.target.credentials[role] as SeedCredential;
    const found = await keys.bySecretHash(hashSecret(told.key), 1_000);
    if (found === null) throw new Error(`expected the key of ${role} to be stored`);
    return { ...found, used: await limiter.used(found.org.id, "map_loads"), told };
  };

  test("the target file has every role of the interface", () => {
    expect(Object.keys(seed.target.credentials).sort()).toEqual([...KEY_ROLES, ...ADMIN_ROLES].sort());
  });

  test("seeding twice replaces: the first secrets are unknown and the key limits hold", async () => {
    const old = first.target.credentials.publishable as SeedCredential;
    expect(await keys.bySecretHash(hashSecret(old.key), 1_000)).toBeNull();
    expect(await keys.create("org_l", { kind: "server" }, 1_000)).toEqual({ refuse: "key_limit_reached" });
    expect(await keys.create("org_a", { kind: "server" }, 1_000)).toHaveProperty("secret");
  });

  test("each role is what the interface says of it", async () => {
    expect(await roleOf("publishable")).toMatchObject({
      key: { kind: "publishable", status: "valid", products: [], allowed_origins: ["https://app.example"] },
      org: { tier: "Pro" },
    });
    expect(await roleOf("server")).toMatchObject({ key: { kind: "server", allowed_ips: [] }, org: { tier: "Pro" } });
    expect((await roleOf("publishable_other_org")).org.id).not.toBe((await roleOf("publishable")).org.id);
    expect((await roleOf("publishable_no_ai")).key.scopes).toEqual(["design", "maps", "vendor"]);
    expect((await roleOf("publishable_tile_only")).key.products).toEqual(["tile"]);
    expect((await roleOf("server_no_design")).key.scopes).toEqual(["ai", "maps", "vendor"]);
    expect((await roleOf("server_foreign_ip")).key.allowed_ips).toEqual(["192.0.2.0/24"]);
    expect((await roleOf("publishable_basemap")).org.basemap_style_id).toBe("svc-dusk");
    expect((await roleOf("revoked")).key.status).toBe("revoked");
    expect((await roleOf("expired")).key).toMatchObject({ status: "expired", expires_at: expect.any(Number) });
    expect(scopeRefusal(await roleOf("server_downgraded"), "ai", null)).toBe("tier_capability_not_allowed");
    expect(scopeRefusal(await roleOf("publishable_downgraded"), "ai", "chat")).toBe("tier_capability_not_allowed");
  });

  test("allowances stand where the interface says, and the target file tells them", async () => {
    for (const role of ["publishable_exhausted", "publishable_hard_stop"]) {
      const { org, used, told } = await roleOf(role);
      expect([used, told.limit]).toEqual([mapLoadCap(org), org.map_load_allowance]);
    }
    for (const role of ["publishable_expendable", "publishable_expendable_paid"]) {
      const { org, used, told } = await roleOf(role);
      expect([used, told.limit, told.tier]).toEqual([0, org.map_load_allowance, org.tier]);
    }
  });

  test("admins have the plan that their role says", async () => {
    const tierOf = async (role: string) => {
      const { org } = seed.target.credentials[role] as { org: string };
      return (await keys.organization(org))?.tier;
    };
    expect(await Promise.all(["admin_pro", "admin_free", "admin_no_plan", "admin_key_limit"].map(tierOf))).toEqual([
      "Pro",
      "Free",
      null,
      "Pro",
    ]);
  });

  test("tenants carry load: most are paid and have both keys", async () => {
    expect(seed.target.tenants).toHaveLength(12);
    const paid = seed.target.tenants.filter(({ tier }) => tier === "Pro");
    expect(paid.length).toBeGreaterThan(6);
    for (const { org, server } of paid) {
      const found = await keys.bySecretHash(hashSecret(server?.key ?? ""), 1_000);
      expect(found).toMatchObject({ key: { kind: "server" }, org: { id: org, tier: "Pro" } });
    }
  });
});

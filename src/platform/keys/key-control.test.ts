import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Service } from "../control-plane.ts";
import { localLimiter } from "../limiter/limiter.fixture.ts";
import { openLimiterStore } from "../limiter/store.ts";
import { openControl, operate } from "../operator.fixture.ts";
import { type Limiter, shiftableClock } from "../ports.ts";
import { adminTokenVerifier } from "./secret.ts";
import { openKeyStore, startKeyService } from "./store.ts";

const SECRET = "a-secret-for-tests-only";
const DAY_MS = 86_400_000;

type Started = Service & { controlUrl: string };

const startService = async (more: { limiter?: Limiter; adminSecret?: string }): Promise<Started> => {
  const store = openKeyStore(":memory:");
  const clock = shiftableClock();
  const service = await startKeyService({ store, clock, ...more }, { port: 0 });
  const plane = await openControl(service.control, clock);
  const close = async (): Promise<void> => void (await Promise.all([service.close(), plane.close()]));
  return { ...service, controlUrl: plane.url, close };
};

/** One control-plane call. */
const call = async (service: Started, method: string, path: string, body?: unknown) => {
  const { status, text } = await operate(service.controlUrl, method, path, body);
  return { status, body: JSON.parse(text) as Record<string, unknown> };
};

describe("the key service's control plane", () => {
  const limiter = localLimiter(openLimiterStore(":memory:"), shiftableClock());
  let service: Started;
  let bare: Started;
  beforeAll(async () => {
    service = await startService({ limiter, adminSecret: SECRET });
    bare = await startService({});
  });
  afterAll(() => Promise.all([service.close(), bare.close()]));

  test("is not reachable through the service itself", async () => {
    const response = await fetch(`${service.url}/orgs`, { method: "POST", body: '{"tier":"Pro"}' });
    expect(response.status).toBe(404);
  });

  test("reports how many records were looked up, each of a batch, whether they are there or not", async () => {
    const before = (await call(service, "GET", "/lookups")).body.lookups as number;
    const lookups = [{ hash: "0".repeat(64) }, { id: "key_nobody" }];
    const response = await fetch(`${service.url}/lookups`, { method: "POST", body: JSON.stringify({ lookups }) });
    expect(response.status).toBe(200);
    expect((await call(service, "GET", "/lookups")).body).toEqual({ lookups: before + 2 });
  });

  test("makes, changes and tells an organization, with what it has used", async () => {
    const made = await call(service, "POST", "/orgs", { id: "org_a", tier: "Pro", map_loads_used: 25, key_limit: 4 });
    expect(made).toEqual({
      status: 201,
      body: {
        id: "org_a",
        tier: "Pro",
        map_load_allowance: 100_000,
        key_limit: 4,
        basemap_style_id: null,
        in_flight_cap: null,
        map_loads_used: 25,
      },
    });
    expect(await limiter.used("org_a", "map_loads")).toBe(25);
    expect((await call(service, "PATCH", "/orgs/org_a", { tier: "Free" })).body).toMatchObject({
      tier: "Free",
      key_limit: 4,
    });
    expect((await call(service, "GET", "/orgs/org_a")).body).toMatchObject({ tier: "Free", map_loads_used: 25 });
    expect((await call(service, "GET", "/orgs/org_nobody")).status).toBe(404);
    expect((await call(service, "PATCH", "/orgs/org_nobody", { tier: "Pro" })).status).toBe(404);
  });

  test("without a limiter, what was used cannot be set, and nothing else of the request is done", async () => {
    const refused = await call(bare, "POST", "/orgs", { id: "org_b", tier: "Pro", map_loads_used: 1 });
    expect(refused.status).toBe(409);
    expect(refused.body.error).toContain("--limiter");
    expect((await call(bare, "GET", "/orgs/org_b")).status).toBe(404);
  });

  test("without an answer of the limiter, what was stored all the same is told, and what to do", async () => {
    const gone = { ...limiter, setUsed: () => Promise.reject(new Error("gone")) } as Limiter;
    const alone = await startService({ limiter: gone });
    try {
      const told = await call(alone, "POST", "/orgs", { id: "org_half", tier: "Pro", map_loads_used: 1 });
      expect(told.status).toBe(503);
      expect(told.body.error).toMatch(/the organization is stored and map_loads_used may not be.*send it again/);
      expect((await call(alone, "GET", "/orgs/org_half")).body).toMatchObject({ tier: "Pro", map_loads_used: 0 });
    } finally {
      await alone.close();
    }
  });

  test("makes and changes any key, and tells its secret once", async () => {
    await call(service, "POST", "/orgs", { id: "org_k", tier: "Free" });
    const made = await call(service, "POST", "/keys", { org_id: "org_k", kind: "server", scopes: ["vendor"] });
    expect(made.status).toBe(201);
    expect(made.body.key).toMatch(/^svc_sk_live_/);
    const changed = await call(service, "PATCH", `/keys/${made.body.id}`, { status: "expired" });
    expect(changed.body).toMatchObject({ id: made.body.id, status: "expired" });
    expect(changed.body).not.toHaveProperty("key");
    expect((await call(service, "PATCH", "/keys/key_nobody", { status: "expired" })).status).toBe(404);
  });

  test.each([
    ["POST", "/orgs", { id: "org_new" }],
    ["POST", "/orgs", { tier: "Gold" }],
    ["POST", "/orgs", { tier: "Pro", allowance: 5 }],
    ["POST", "/orgs", { id: "half a pair \ud800", tier: "Pro" }],
    ["POST", "/orgs", { id: "org_a", map_loads_used: 1e21 }],
    ["POST", "/orgs", { id: "org_a", map_load_allowance: 2 ** 53 }],
    ["POST", "/keys", { kind: "server" }],
    ["POST", "/keys", { org_id: "org_a", kind: "server", colour: "red" }],
    ["PATCH", "/keys/key_nobody", { colour: "red" }],
    ["POST", "/keys", { org_id: "org_nobody", kind: "server" }],
    ["POST", "/admin-tokens", {}],
    ["PATCH", "/deployment", { clock_offset_ms: "soon" }],
  ])("%s %s %j is refused with a sentence", async (method, path, body) => {
    const refused = await call(service, method, path, body);
    expect(refused.status).toBe(422);
    expect(refused.body.error).toEqual(expect.any(String));
  });

  test("admin tokens carry their organization and end when they should, by the deployment's clock", async () => {
    const { body } = await call(service, "POST", "/admin-tokens", { org: "org_a", expires_in: 60 });
    const verify = adminTokenVerifier(SECRET);
    const token = body.token as string;
    expect(verify(token, Date.now())).toMatchObject({ org_id: "org_a", role: "org_admin" });
    expect(verify(token, Date.now() + 61_000)).toBeNull();
    expect(adminTokenVerifier("another-secret")(token, Date.now())).toBeNull();
    expect(verify(`${token}x`, Date.now())).toBeNull();
    expect(await call(service, "PATCH", "/deployment", { clock_offset_ms: DAY_MS, sessions: "disabled" })).toEqual({
      status: 200,
      body: { clock_offset_ms: DAY_MS },
    });
    const later = await call(service, "POST", "/admin-tokens", { org: "org_a" });
    expect(verify(later.body.token as string, Date.now() + DAY_MS)).not.toBeNull();
    await call(service, "PATCH", "/deployment", { clock_offset_ms: 0 });
    expect((await call(bare, "POST", "/admin-tokens", { org: "org_a" })).status).toBe(409);
  });
});

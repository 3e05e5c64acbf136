import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Heard } from "../start-platform.fixture.ts";
import { type Deployment, type Fixture, ORIGIN, outcomeOf, startDeployment, tally } from "./api.fixture.ts";

/** A burst on a busy machine keeps a dependency waiting for longer than the usual budgets. */
const PATIENT = { limiterBudgetMs: 30_000, keyServiceBudgetMs: 30_000 };

let on: Deployment;

beforeAll(async () => {
  on = await startDeployment({ globalInFlight: 1_000, orgInFlight: 1_000, ...PATIENT });
});
afterAll(() => on?.close());

const mint = (key: Fixture, product = "tile", id?: string): Promise<Heard> =>
  on.call({
    method: "POST",
    path: "/sdk/sessions",
    body: { product },
    credential: key.secret,
    origin: ORIGIN,
    headers: id === undefined ? {} : { "x-request-id": id },
  });
const burst = async (key: Fixture, n: number, run: string): Promise<Record<string, number>> =>
  tally(await Promise.all(Array.from({ length: n }, (_, i) => mint(key, "tile", `${run}.${i}`))));
const usedOf = async (org: string): Promise<number> => (await on.ask("GET", `/orgs/${org}`)).json.map_loads_used;

describe("the monthly allowance (items 10, 79-80, 184-185, 204-207, 222, 225-227; A8, A9)", () => {
  test("a Free organization's burst admits exactly what is left, and tells meter, limit and used (items 10, 157, 184, 204)", async () => {
    const org = await on.org({ tier: "Free", map_load_allowance: 20, map_loads_used: 3 });
    const key = await on.key(org);
    expect(await burst(key, 60, "free.burst")).toEqual({ "200": 17, "429 map_load_quota_exceeded": 43 });
    expect(await usedOf(org)).toBe(20);
    const refused = await mint(key);
    expect(refused.json).toEqual({ error: "map_load_quota_exceeded", meter: "map_loads", limit: 20, used: 20 });
    expect(refused.headers["retry-after"]).toBeUndefined();
    const charged = (await on.ledger("free.burst")).filter((line) => line.org === org);
    expect(charged).toHaveLength(17);
    expect(new Set(charged.map(({ charge_id }) => charge_id)).size).toBe(17);
  });

  test("a paid organization works on in the soft band, and stops hard at five times (items 185, 205, 206, 225)", async () => {
    const org = await on.org({ map_load_allowance: 4 });
    const key = await on.key(org);
    expect(await burst(key, 40, "paid.burst")).toEqual({ "200": 20, "429 map_load_hard_stop": 20 });
    const refused = await mint(key);
    expect(refused.json).toEqual({ detail: "map_load_hard_stop" });
    expect(refused.headers["retry-after"]).toBeUndefined();
    expect(await usedOf(org)).toBe(20);
  });

  test("other products and refused mints are not charged (item 80)", async () => {
    const org = await on.org({ map_load_allowance: 5 });
    const key = await on.key(org);
    for (const product of ["chat", "editor", "viewer", "tile"]) await mint(key, product);
    await on.call({ method: "POST", path: "/sdk/sessions", body: { product: "tile" }, credential: key.secret });
    expect(await usedOf(org)).toBe(1);
  });

  test("loads under a session and mints draw on one meter, each organization on its own (item 227)", async () => {
    const [one, two] = [
      await on.org({ tier: "Free", map_load_allowance: 3 }),
      await on.org({ tier: "Free", map_load_allowance: 3 }),
    ];
    const key = await on.key(one);
    const session = (await mint(key)).json.session_token;
    const load = () => on.call({ method: "POST", path: "/maps/loads", credential: session });
    expect((await load()).json).toEqual({ meter: "map_loads", limit: 3, used: 2 });
    expect((await load()).status).toBe(200);
    expect(outcomeOf(await load())).toBe("429 map_load_quota_exceeded");
    expect(outcomeOf(await mint(key))).toBe("429 map_load_quota_exceeded");
    // Another key of the organization draws on the same allowance; another organization does not.
    expect(outcomeOf(await mint(await on.key(one)))).toBe("429 map_load_quota_exceeded");
    expect((await mint(await on.key(two))).status).toBe(200);
  });

  test("two calls with one X-Request-Id are two charges", async () => {
    const org = await on.org();
    const key = await on.key(org);
    await Promise.all([mint(key, "tile", "twice.x.1"), mint(key, "tile", "twice.x.1")]);
    expect(await on.ledger("twice.x")).toHaveLength(2);
    expect(await usedOf(org)).toBe(2);
  });

  test("a new month in UTC begins with nothing used, and the old one is not forgotten (item 229)", async () => {
    const org = await on.org({ tier: "Free", map_load_allowance: 1 });
    const key = await on.key(org);
    expect((await mint(key)).status).toBe(200);
    expect(outcomeOf(await mint(key))).toBe("429 map_load_quota_exceeded");
    const now = new Date();
    const nextMonth = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1);
    await on.ask("PATCH", "/deployment", { clock_offset_ms: nextMonth - Date.now() + 60_000 });
    expect((await mint(key)).status).toBe(200);
    expect(outcomeOf(await mint(key))).toBe("429 map_load_quota_exceeded");
    await on.ask("PATCH", "/deployment", { clock_offset_ms: 0 });
    expect(outcomeOf(await mint(key))).toBe("429 map_load_quota_exceeded");
  });
});

describe("the request rate of a key (items 213-214, 218, 230)", () => {
  test("admits the burst, then refuses in the detail envelope with whole seconds to wait (item 214)", async () => {
    const limited = await startDeployment({ rateLimit: { perS: 0.1, burst: 5 }, ...PATIENT });
    try {
      const org = await limited.org();
      const key = await limited.serverKey(org);
      const call = (secret: string) => limited.call({ path: "/design/styles", credential: secret });
      const heard = await Promise.all(Array.from({ length: 12 }, () => call(key.secret)));
      expect(tally(heard)).toEqual({ "200": 5, "429 rate_limited": 7 });
      const refused = heard.find(({ status }) => status === 429) as Heard;
      expect(refused.json).toEqual({ detail: "rate_limited" });
      expect(refused.headers["retry-after"]).toMatch(/^([1-9]|10)$/);
      // The bucket is the key's, not the organization's.
      expect((await call((await limited.serverKey(org)).secret)).status).toBe(200);
    } finally {
      await limited.close();
    }
  });

  test("a call refused by its rate is not charged", async () => {
    const limited = await startDeployment({ rateLimit: { perS: 0.01, burst: 1 }, ...PATIENT });
    try {
      const org = await limited.org();
      const { secret } = await limited.serverKey(org);
      const load = () => limited.call({ method: "POST", path: "/maps/loads", credential: secret });
      expect([outcomeOf(await load()), outcomeOf(await load())]).toEqual(["200", "429 rate_limited"]);
      expect((await limited.ask("GET", `/orgs/${org}`)).json.map_loads_used).toBe(1);
    } finally {
      await limited.close();
    }
  });
});

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../start-platform.fixture.ts";
import { type Deployment, MESSAGES, outcomeOf, startDeployment, tally } from "./api.fixture.ts";

let on: Deployment;
let a: string;
let b: string;
let secretA: string;
let secretB: string;

beforeAll(async () => {
  // A burst on a busy machine keeps a dependency waiting for longer than the usual budgets.
  const patient = { limiterBudgetMs: 30_000, keyServiceBudgetMs: 30_000 };
  on = await startDeployment({
    ...patient,
    globalInFlight: 6,
    orgInFlight: 4,
    inference: { serviceMs: 400, tokens: 4, slots: 6 },
  });
  [a, b] = [await on.org(), await on.org()];
  secretA = (await on.serverKey(a)).secret;
  secretB = (await on.serverKey(b)).secret;
  // Key records are in the cache, so that a burst meets the caps all at once.
  for (const secret of [secretA, secretB]) await on.call({ path: "/design/styles", credential: secret });
});
afterAll(() => on?.close());

const stream = (credential: string, id = "shed.x.1") =>
  on.call({
    method: "POST",
    path: "/chat/control/stream",
    body: MESSAGES,
    credential,
    headers: { "x-request-id": id },
  });
/** Without slots of the inference streams stay in flight for as long as a test needs, on a busy machine too. */
const hold = () => on.ask("PATCH", "/deployment", { slots: 0 });
const release = () => on.ask("PATCH", "/deployment", { slots: 6 });
const styles = (credential?: string) => on.call({ path: "/design/styles", credential });
const busy = (n: number) => until(`${n} in flight`, async () => (await on.gauges()).in_flight === n);

describe("load shedding by calls in flight (items 210-212, 220-222)", () => {
  test("an organization at its cap is refused, another one is not (item 211)", async () => {
    await hold();
    const held = Array.from({ length: 4 }, () => stream(secretA));
    await busy(4);
    expect((await on.gauges()).in_flight_by_org).toEqual({ [a]: 4 });
    const refused = await styles(secretA);
    expect([refused.status, refused.json]).toEqual([429, { error: "org_overloaded" }]);
    expect(refused.headers["retry-after"]).toBe("1");
    expect((await styles(secretB)).status).toBe(200);
    await release();
    expect(tally(await Promise.all(held))).toEqual({ "200": 4 });
    await on.quiet();
  });

  test("a replica at its cap refuses before anything is looked at (item 210)", async () => {
    await hold();
    const held = [
      ...Array.from({ length: 4 }, () => stream(secretA)),
      ...Array.from({ length: 2 }, () => stream(secretB)),
    ];
    await busy(6);
    for (const credential of [secretA, secretB, undefined, "garbage"]) {
      const refused = await styles(credential);
      expect([refused.status, refused.json]).toEqual([429, { error: "b2b_overloaded" }]);
      expect(refused.headers["retry-after"]).toBe("1");
    }
    // What is not routed, a preflight and key management are not shed (A22).
    expect((await on.call({ path: "/nothing" })).status).toBe(404);
    expect((await on.call({ method: "OPTIONS", path: "/design/styles" })).status).toBe(204);
    expect((await on.call({ method: "DELETE", path: "/shared-api/api-keys/key_x" })).status).toBe(401);
    await release();
    expect(tally(await Promise.all(held))).toEqual({ "200": 6 });
    await on.quiet();
  });

  test("a shed call has the same answer whatever its route", async () => {
    await on.ask("PATCH", "/deployment", { global_in_flight: 0 });
    const calls = [
      { path: "/design/styles" },
      { path: "/design/styles?x=1" },
      { path: "/maps/tiles/1/0/0" },
      { path: "/retrieval/poi/enrich?name=a&category=b&lat=1&lon=2" },
      { method: "POST", path: "/sdk/sessions", body: { product: "tile" }, origin: "https://app.example" },
      { method: "POST", path: "/chat/control/stream", body: MESSAGES },
      { method: "POST", path: "/maps/loads" },
    ];
    const headers = { "x-request-id": "door.x.1" };
    for (const call of calls) {
      const { status, text, headers: heard } = await on.call({ ...call, credential: secretA, headers });
      expect([call.path, status, text]).toEqual([call.path, 429, '{"error":"b2b_overloaded"}']);
      const { date, "keep-alive": _alive, connection: _connection, ...ours } = heard;
      expect(date).toBeDefined();
      expect(ours).toEqual({
        "content-type": "application/json",
        "content-length": "26",
        "retry-after": "1",
        "x-request-id": "door.x.1",
        vary: "Origin",
      });
    }
    expect((await on.call({ method: "HEAD", path: "/design/styles" })).status).toBe(429);
    expect((await on.ask("GET", "/counts?run=door.x")).json).toEqual({
      "429 b2b_overloaded": { "-": calls.length },
    });
    await on.ask("PATCH", "/deployment", { global_in_flight: 6 });
  });

  test("a burst admits exactly the cap, and what was shed spent nothing", async () => {
    await hold();
    let answered = 0;
    const calls = Array.from({ length: 40 }, (_, i) =>
      stream(i % 2 === 0 ? secretA : secretB, `burst.x.${i}`).finally(() => {
        answered += 1;
      }),
    );
    await until("34 answers", () => answered >= 34);
    await release();
    const outcomes = tally(await Promise.all(calls));
    expect(outcomes["200"]).toBe(6);
    expect((outcomes["429 b2b_overloaded"] ?? 0) + (outcomes["429 org_overloaded"] ?? 0)).toBe(34);
    await on.quiet();
    const counts = (await on.ask("GET", "/counts?run=burst.x")).json;
    const counted = Object.fromEntries(
      Object.entries(counts as Record<string, Record<string, number>>).map(([outcome, byOrg]) => [
        outcome,
        Object.values(byOrg).reduce((sum, n) => sum + n, 0),
      ]),
    );
    expect(counted).toEqual(outcomes);
  });

  test("a shed mint is not charged", async () => {
    const key = await on.key(a);
    await on.ask("PATCH", "/deployment", { org_in_flight: 0 });
    const headers = { "x-request-id": "shed.mint.1" };
    const mint = { method: "POST", path: "/sdk/sessions", body: { product: "tile" }, credential: key.secret, headers };
    expect(outcomeOf(await on.call({ ...mint, origin: "https://app.example" }))).toBe("429 org_overloaded");
    expect(await on.ledger("shed.mint")).toEqual([]);
    await on.ask("PATCH", "/deployment", { org_in_flight: 4 });
  });

  test("caps can be changed while it runs, and an organization can have its own", async () => {
    await on.ask("PATCH", "/deployment", { global_in_flight: 0 });
    expect(outcomeOf(await styles(secretA))).toBe("429 b2b_overloaded");
    await on.ask("PATCH", "/deployment", { global_in_flight: 6 });
    const narrow = await on.serverKey(await on.org({ in_flight_cap: 0 }));
    expect(outcomeOf(await styles(narrow.secret))).toBe("429 org_overloaded");
    expect((await styles(secretA)).status).toBe(200);
  });

  test("a slot is given back before the last byte: as soon as an answer is read, its place is free", async () => {
    await on.ask("PATCH", "/deployment", { global_in_flight: 1 });
    for (let i = 0; i < 50; i += 1) expect((await styles(secretA)).status).toBe(200);
    for (let i = 0; i < 3; i += 1) expect((await stream(secretA)).status).toBe(200);
    await on.ask("PATCH", "/deployment", { global_in_flight: 6 });
  });
});

describe("adaptive shedding", () => {
  test("sheds with the same subcodes when calls wait for the inference", async () => {
    const adaptive = await startDeployment({
      shedding: "adaptive",
      globalInFlight: 200,
      orgInFlight: 200,
      toleratedWaitMs: 5,
      inference: { serviceMs: 50, tokens: 1, slots: 2 },
    });
    try {
      const { secret } = await adaptive.serverKey(await adaptive.org());
      const outcomes = new Set<string>();
      await until("a shed call", async () => {
        const call = { method: "POST", path: "/chat/button/stream", body: {}, credential: secret };
        for (const heard of await Promise.all(Array.from({ length: 40 }, () => adaptive.call(call)))) {
          outcomes.add(outcomeOf(heard));
        }
        return outcomes.size > 1;
      });
      for (const outcome of outcomes) expect(["200", "429 b2b_overloaded", "429 org_overloaded"]).toContain(outcome);
    } finally {
      await adaptive.close();
    }
  });
});

import { Writable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findSecrets } from "../../contract/credentials.ts";
import { type Deployment, MESSAGES, ORIGIN, outcomeOf, startDeployment } from "./api.fixture.ts";
import { countedOutcomes } from "./context.ts";

let on: Deployment;
let org: string;
let secret: string;
let log = "";

beforeAll(async () => {
  const logTo = new Writable({
    write: (text, _encoding, done) => {
      log += text;
      done();
    },
  });
  on = await startDeployment({ logLevel: "debug", logTo });
  org = await on.org();
  secret = (await on.serverKey(org)).secret;
});
afterAll(() => on?.close());

const counts = async (run: string): Promise<Record<string, Record<string, number>>> =>
  (await on.ask("GET", `/counts?run=${run}`)).json;

describe("counts", () => {
  test("agree with what the client saw, by outcome and organization, over every kind of answer", async () => {
    const key = await on.key(org);
    const session = await on.session(key);
    const chat = { method: "POST", path: "/chat/control/stream", body: MESSAGES };
    const ways = [
      { path: "/design/styles", credential: secret },
      { path: "/design/styles" },
      { path: "/design/styles", credential: key.secret },
      { path: "/design/styles", credential: session },
      { path: "/nothing" },
      { method: "PUT", path: "/design/styles" },
      { method: "OPTIONS", path: "/design/styles" },
      { ...chat, credential: session },
      { ...chat, credential: session, body: {} },
      {
        method: "POST",
        path: "/chat/control/route",
        body: { places: [], profile: "", raw_query: "" },
        credential: session,
      },
      { method: "POST", path: "/sdk/sessions", body: { product: "tile" }, credential: key.secret, origin: ORIGIN },
      { method: "POST", path: "/shared-api/api-keys", body: {}, credential: await on.adminToken(org) },
      { method: "DELETE", path: "/shared-api/api-keys/key_1" },
    ];
    const seen: Record<string, number> = {};
    await Promise.all(
      [...ways, ...ways, ...ways].map(async (way, i) => {
        const heard = await on.call({ ...way, headers: { "x-request-id": `agree.all.${i}` } });
        const outcome = heard.status === 200 && heard.json?.error !== undefined ? "200 error" : outcomeOf(heard);
        seen[outcome] = (seen[outcome] ?? 0) + 1;
      }),
    );
    const counted = await counts("agree");
    const sums = Object.fromEntries(
      Object.entries(counted).map(([outcome, byOrg]) => [outcome, Object.values(byOrg).reduce((sum, n) => sum + n, 0)]),
    );
    expect(sums).toEqual(seen);
    // From authentication on, by organization; before it, in total.
    expect(Object.keys(counted["401"] ?? {})).toEqual(["-"]);
    expect(Object.keys(counted["401 publishable_requires_session"] ?? {})).toEqual([org]);
    expect(Object.keys(counted["404 Not Found"] ?? {})).toEqual(["-"]);
  });

  test("a run is everything before the last separator, and a longer run is not a shorter one's", async () => {
    const hit = (id: string) => on.call({ path: "/nothing", headers: { "x-request-id": id } });
    await Promise.all(["n1.a.1", "n1.a.2", "n1.b.1", "n1:c/9", "n11.a.1", "plain"].map(hit));
    const total = async (run: string): Promise<number> => (await counts(run))["404 Not Found"]?.["-"] ?? 0;
    expect(await total("n1")).toBe(4);
    expect(await total("n1.a")).toBe(2);
    expect(await total("n11")).toBe(1);
    expect(await total("plain")).toBe(0);
    expect(await total("")).toBeGreaterThanOrEqual(6);
  });

  test("of a thousand runs the one that was silent the longest is forgotten, not the first that still calls", () => {
    const counted = countedOutcomes();
    counted.count("first.1", "200", "-");
    counted.count("silent.1", "200", "-");
    for (let n = 0; n < 999; n += 1) {
      counted.count("first.2", "200", "-");
      counted.count(`other${n}.1`, "200", "-");
    }
    expect(counted.of("first")).toEqual({ "200": { "-": 1_000 } });
    expect(counted.of("silent")).toEqual({});
    expect(counted.of("other998")).toEqual({ "200": { "-": 1 } });
  });

  test("a stream that failed is counted as the client saw it", async () => {
    await on.ask("PATCH", "/deployment", { fail_next: { route: "chat.button", mode: "error_event", count: 2 } });
    for (let i = 0; i < 3; i += 1) {
      await on.call({
        method: "POST",
        path: "/chat/button/stream",
        body: {},
        credential: secret,
        headers: { "x-request-id": `fails.x.${i}` },
      });
    }
    expect(await counts("fails")).toEqual({ "200": { [org]: 1 }, "200 error": { [org]: 2 } });
  });
});

describe("gauges and deployment", () => {
  test("gauges have what the interface names, and are at rest when nothing runs", async () => {
    await on.quiet();
    const gauges = await on.gauges();
    expect(gauges).toMatchObject({ in_flight: 0, in_flight_by_org: {}, unsettled: 0 });
    for (const name of ["sockets", "event_loop_lag_ms_p99", "rss_bytes", "heap_bytes", "timers", "open_files"])
      expect(gauges[name]).toBeGreaterThanOrEqual(0);
  });

  test("what is garbage is not counted where a collection was asked for", async () => {
    const held: string[] = [];
    const fill = (): void => {
      for (let n = 0; n < 200_000; n += 1) held.push(`${n}`.padStart(100, "x"));
    };
    const heapMB = async (): Promise<number> =>
      ((await on.ask("GET", "/gauges?gc=true")).json.heap_bytes as number) / 1e6;
    const before = await heapMB();
    fill();
    expect((await heapMB()) - before).toBeGreaterThan(10);
    held.length = 0;
    expect((await heapMB()) - before).toBeLessThan(5);
  });

  test("what can be changed is shown as it is, so that a change can be undone", async () => {
    const before = (await on.ask("GET", "/deployment")).json;
    expect(before).toMatchObject({ sessions: "enabled", clock_offset_ms: 0, service_factor: 1, failures_left: 0 });
    for (const field of ["slots", "global_in_flight", "org_in_flight"]) expect(before[field]).toBeGreaterThan(0);
    const changed = { sessions: "disabled", slots: 3, global_in_flight: 7, org_in_flight: 5, service_factor: 2 };
    await on.ask("PATCH", "/deployment", changed);
    expect((await on.ask("GET", "/deployment")).json).toEqual({ ...before, ...changed });
    const { failures_left: _, ...settings } = before;
    await on.ask("PATCH", "/deployment", settings);
    expect((await on.ask("GET", "/deployment")).json).toEqual(before);
  });

  test("a change that makes no sense is refused in a sentence, and changes nothing", async () => {
    for (const body of [
      { sessions: "maybe" },
      { global_in_flight: -1 },
      { fail_next: { route: "nowhere", mode: "reset", count: 1 } },
      { fail_next: { route: "chat.route", mode: "melt", count: 1 } },
      { clock_offset_ms: "soon" },
      { slots: -1 },
      { service_factor: 0 },
    ]) {
      const heard = await on.ask("PATCH", "/deployment", body);
      expect(heard.status).toBe(422);
      expect(heard.json.error.length).toBeGreaterThan(10);
    }
    expect((await on.ask("PATCH", "/deployment", {})).json).toMatchObject({ sessions: "enabled", clock_offset_ms: 0 });
  });

  test("an ordered failure of a JSON answer: an error under 200, half an answer, or none", async () => {
    const fail = (mode: string) =>
      on.ask("PATCH", "/deployment", { fail_next: { route: "design.themes", mode, count: 1 } });
    const themes = () => on.call({ path: "/design/themes", credential: secret });
    await fail("route_error");
    expect((await themes()).json).toEqual({ error: expect.any(String) });
    for (const mode of ["truncate", "reset"]) {
      await fail(mode);
      await expect(themes()).rejects.toThrow();
    }
    await fail("truncate");
    const raw = await on.raw();
    raw.send(`GET /v1/design/themes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${secret}\r\n\r\n`);
    await raw.closed();
    const [head, half = ""] = raw.heard().split("\r\n\r\n");
    expect(half).toHaveLength(Math.floor(Number(/content-length: (\d+)/i.exec(head ?? "")?.[1]) / 2));
    expect((await themes()).status).toBe(200);
    await on.quiet();
  });

  test("an operator makes the work slower, and takes it back", async () => {
    const change = (body: object) => on.ask("PATCH", "/deployment", body);
    const stream = { method: "POST", path: "/chat/button/stream", body: {}, credential: secret };
    const tookMs = async (): Promise<number> => {
      const began = performance.now();
      await on.call(stream);
      return performance.now() - began;
    };
    // A machine that stalls adds to a time and takes nothing off it.
    const usualMs = Math.min(await tookMs(), await tookMs(), await tookMs());
    expect((await change({ service_factor: 40 })).status).toBe(200);
    expect(await tookMs()).toBeGreaterThan(2 * usualMs);
    await change({ service_factor: 1 });
    expect((await change({ slots: 0 })).status).toBe(200);
    const waits = on.call(stream);
    const first = await Promise.race([
      waits.then(() => "answered"),
      new Promise((resolve) => setTimeout(resolve, 200)),
    ]);
    expect(first).toBeUndefined();
    await change({ slots: 64 });
    expect((await waits).status).toBe(200);
    await on.quiet();
  });

  test("nothing of the control plane is reachable through the API", async () => {
    for (const path of ["/counts", "/gauges", "/deployment", "/orgs", "/keys", "/ledger"]) {
      expect((await on.call({ path })).status).toBe(404);
      expect((await fetch(new URL(path, on.api))).status).toBe(404);
    }
  });
});

describe("the log (P11)", () => {
  test("has one line for each call at debug, and never a credential", async () => {
    const before = log.length;
    const key = await on.key(org);
    const session = await on.session(key);
    await on.call({ path: "/design/styles", credential: session, headers: { "x-request-id": "log.x.1" } });
    await on.call({ path: "/design/styles", apiKey: `${key.secret}-wrong` });
    await on.call({ path: "/design/styles", headers: { authorization: `Basic ${key.secret}` } });
    await on.call({ path: `/design/styles?token=${session}` });
    await on.call({
      method: "POST",
      path: "/shared-api/api-keys",
      body: { kind: "server" },
      credential: await on.adminToken(org),
    });
    const lines = log
      .slice(before)
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.filter(({ msg }) => msg === "call")).toHaveLength(6);
    expect(lines.find(({ requestId }) => requestId === "log.x.1")).toMatchObject({
      route: "design.styles",
      org,
      outcome: "403 insufficient_scope",
    });
    expect(findSecrets(log)).toEqual([]);
    expect(log).not.toContain(key.secret.slice(12, 24));
  });
});

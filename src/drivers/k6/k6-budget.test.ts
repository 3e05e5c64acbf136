import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type StubApi, startStubApi } from "../../client/stub-api.fixture.ts";
import type { CallLine } from "../../history/line.ts";
import type { Budget } from "../../workload/budget.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { constant } from "../../workload/load-profiles.ts";
import { k6OrSkip, playK6 } from "./run-k6.fixture.ts";

const k6 = k6OrSkip();
const NOTHING = { map_loads: 0, analyses: 0, stream_seconds: 0 };

let stub: StubApi;
beforeEach(async () => {
  stub = await startStubApi();
});
afterEach(() => stub.close());

const run = (story: string, ratePerS: number, budget: Budget, more: Parameters<typeof playK6>[3] = {}) =>
  playK6(stub, story, constant(ratePerS, 2), { ...more, budget });

describe.skipIf(k6 === null)("the budget of the k6 driver", () => {
  test("not one request more leaves than it allows, and the rest is no line", async () => {
    const { spent, stopped, keeperStopped, lines, problems } = await run("catalog-reads", 100, {
      requests: 37,
    });
    expect(stub.asked).toHaveLength(37);
    expect(lines).toHaveLength(37);
    expect(spent).toEqual({ ...NOTHING, requests: 37 });
    expect(keeperStopped).toBe(stopped);
    expect(stopped).toMatch(/budget\.requests/);
    expect(problems).toEqual([
      {
        verdict: "inconclusive",
        code: "budget-spent",
        reason: expect.stringMatching(/^stopped early: budget\.requests/),
      },
    ]);
  });

  test("without a budget it counts what the target saw", async () => {
    const { spent, stopped, lines } = await run("chat-past-capacity", 50, {});
    expect(spent.requests).toBe(stub.asked.length);
    expect(spent.requests).toBe(lines.length);
    expect(spent.stream_seconds).toBeGreaterThan(lines.length * 0.015);
    expect(stopped).toBeNull();
  });

  test("streams that are open when it ends come to their end and have a line each", async () => {
    stub.streamMs = 400;
    const { lines, stopped } = await run("chat-past-capacity", 100, { requests: 30 });
    expect(stopped).toMatch(/budget\.requests/);
    expect(lines.map(({ ended }) => ended)).toEqual(Array.from({ length: 30 }, () => "done"));
  });

  test("map loads: those refused are given back, and the first one too many is not sent", async () => {
    let n = 0;
    stub.instead = ({ path }, res) => {
      if (!path.endsWith("/maps/loads") || n++ % 2 === 0) return false;
      res.writeHead(429).end('{"detail":"map_load_hard_stop"}');
      return true;
    };
    const tenants = [{ org: "org_a", server: { key: "svc_sk_live_a" } }];
    const target = stub.target({
      tenants,
      permits: { quota_burn: true },
      tile_url: `${stub.url}/maps/tiles/{z}/{x}/{y}`,
    });
    const own = { target, view: viewOf(target) };
    const { spent, stopped, lines } = await run("broken-dependency", 100, { map_loads: 20 }, own);
    const admitted = lines.filter(({ meter, outcome }) => meter === "map_loads" && outcome === "200");
    expect(stopped).toMatch(/budget\.map_loads/);
    expect(admitted).toHaveLength(20);
    expect(spent.map_loads).toBe(20);
  });

  test("no second holds more calls than the rate and a twentieth", async () => {
    const { lines } = await run("catalog-reads", 100, { maxPerS: 40 }, { vus: 200 });
    // The budget lets them go at that rate; connections that a busy machine is slow to make bunch them afterwards.
    const sent = lines.map(({ started_us }) => started_us).sort((a, b) => a - b);
    expect(sent.length).toBeGreaterThan(40);
    const most = Math.max(...sent.map((from) => sent.filter((at) => at >= from && at < from + 1e6).length));
    expect(most).toBeLessThanOrEqual(42);
  });

  test("errors end it within the second, unless a fault brings them about", async () => {
    stub.instead = (_, res) => {
      res.writeHead(503).end("{}");
      return true;
    };
    const ended = await run("catalog-reads", 100, { stopErrorRate: 0.2 });
    expect(ended.stopped).toMatch(/stop_when\.error_rate/);
    expect(stub.asked.length).toBeLessThan(100);
    const tolerated = await run("catalog-reads", 50, { stopErrorRate: 0.2, tolerated: ["503"] });
    expect(tolerated.stopped).toBeNull();
  });

  test("a shed in a framework's own error ends nothing", async () => {
    stub.instead = (_asked, res) => {
      res.writeHead(429).end('{"statusCode":429,"error":"Too Many Requests","message":"b2b_overloaded"}');
      return true;
    };
    const { stopped, lines } = await run("catalog-reads", 50, { stopErrorRate: 0.2 });
    expect(stopped).toBeNull();
    expect(new Set(lines.map(({ outcome }) => outcome))).toEqual(new Set(["429 b2b_overloaded"]));
  });

  test("a target that refuses connections has seen nothing", async () => {
    const target = stub.target({ base_url: "http://127.0.0.1:1/v1" });
    const { spent, lines } = await run("catalog-reads", 20, { requests: 10 }, { target });
    expect(lines.length).toBeGreaterThan(30);
    expect(spent).toEqual({ ...NOTHING, requests: 0 });
  });

  test("minting sessions is a part of what is spent", async () => {
    const { spent } = await run("smoke", 40, {});
    expect(spent.requests).toBe(stub.asked.length);
    const none = await run("smoke", 40, { requests: 1 });
    expect(none.spent.requests).toBe(1);
    expect(none.problems).toMatchObject([{ verdict: "inconclusive", reason: /budget\.requests/ }]);
  });

  test("segments share it, and the sentence names the whole of what the target file states", async () => {
    const { spent, stopped, lines, problems } = await run("catalog-reads", 100, { requests: 41 }, { segments: 2 });
    expect(stub.asked).toHaveLength(41);
    expect(new Set(lines.map(({ id }) => id)).size).toBe(41);
    expect(spent.requests).toBe(41);
    expect(stopped).toBe("budget.requests of the target file (41) is spent");
    expect(problems).toEqual([{ verdict: "inconclusive", code: "budget-spent", reason: `stopped early: ${stopped}` }]);
  });

  test("errors that one segment sees end the load of all", async () => {
    let began = 0;
    stub.instead = ({ id }, res) => {
      // Even numbers are the first segment's.
      if (Number(id.split("-").at(-1)) % 2 === 1) return false;
      began += 1;
      res.writeHead(500, { "content-type": "application/json" }).end("{}");
      return true;
    };
    const more = { segments: 2, profile: constant(100, 20) };
    const { stopped, lines } = await run("catalog-reads", 100, { stopErrorRate: 0.2 }, more);
    expect(stopped).toMatch(/stop_when\.error_rate/);
    expect(began).toBeGreaterThan(9);
    expect(lines.length).toBeLessThan(1000);
  });

  test("lines come while it runs, and it can be ended from outside without losing one", async () => {
    const stopping = new AbortController();
    const at: number[] = [];
    const lines: CallLine[] = [];
    const { stopped, problems } = await run(
      "catalog-reads",
      50,
      {},
      {
        profile: constant(50, 20),
        signal: stopping.signal,
        onLine: (line) => {
          lines.push(line);
          at.push(performance.now());
          if (lines.length === 100) stopping.abort();
        },
      },
    );
    expect({ stopped, problems }).toEqual({ stopped: null, problems: [] });
    // All of 20 s would be a thousand.
    expect(lines.length).toBeLessThan(500);
    expect(lines).toHaveLength(stub.asked.length);
    // A quarter of what the schedule says: a machine may stand still meanwhile, and its lines then come at once.
    expect(at.at(99)! - at.at(0)!).toBeGreaterThan(500);
  });
});

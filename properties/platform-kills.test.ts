/**
 * kill -9 of each process under load, then a start on the same store: nothing acknowledged is
 * lost, and the sums are within their bounds: exact after the limiter, Redis or the key service was
 * killed; after the API was, answered calls are exact and the rest is no more than what was in flight or unsettled.
 */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { hasRedisServer } from "../src/platform/limiter/redis-server.fixture.ts";
import { type Heard, netOf, outcomeOf, type Replicas, startReplicas } from "../src/platform/replicas.fixture.ts";

/** Processes start and end here, on a machine that others use. */
vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 });

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * While a process is gone its port is anybody's: on a busy machine a connection of somebody else's may have it as its own end
 * for a while, and then the process cannot listen.
 */
const comesBack = async (gone: { startAgain(): Promise<void> } | null | undefined): Promise<void> => {
  const untilMs = performance.now() + 20_000;
  for (;;) {
    try {
      return await gone?.startAgain();
    } catch (error) {
      if (performance.now() > untilMs) throw error;
      await pause(250);
    }
  }
};

const CALLERS = 16;
/** Between a caller's calls: the processes are killed for what is under way, not for being busy. */
const PAUSE_MS = 5;

/** Calls of `CALLERS` at once, one after the other from each, until they are told to stop; how they came out. */
const underLoad = (call: (n: number) => Promise<Heard>) => {
  const seen = new Map<string, number>();
  let sent = 0;
  let stopped = false;
  const caller = async (): Promise<void> => {
    while (!stopped) {
      const outcome = outcomeOf(await call(sent++));
      seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
      await pause(PAUSE_MS);
    }
  };
  const callers = Array.from({ length: CALLERS }, caller);
  const count = (outcome: string): number => seen.get(outcome) ?? 0;
  return {
    count,
    outcomes: (): string[] => [...seen.keys()].sort(),
    /** Until `n` calls more have come out so. */
    more: async (n: number, outcome: string): Promise<void> => {
      const wanted = count(outcome) + n;
      const untilMs = performance.now() + 15_000;
      while (count(outcome) < wanted) {
        if (performance.now() > untilMs) throw new Error(`waited 15 s for ${n} × ${outcome}, got ${[...seen]}`);
        await pause(10);
      }
    },
    stop: async (): Promise<void> => {
      stopped = true;
      await Promise.all(callers);
    },
  };
};

/** One deployment for all that is tried over one store: starting processes is what takes the time here. */
const deployed = (limiter: "sqlite" | "redis", isThere = true): { on(): Replicas } => {
  let on: Replicas | undefined;
  beforeAll(async () => {
    if (isThere) on = await startReplicas({ replicas: 2, limiter });
  });
  afterAll(() => on?.close());
  return { on: () => on as Replicas };
};

/** Map loads of a fresh organization over both replicas. */
const mapLoads = async (on: Replicas, run: string) => {
  const org = await on.org({ map_load_allowance: 1_000_000, key_limit: 1_000_000 });
  const secret = await on.key(org, { kind: "server", allowed_origins: [] });
  return { org, secret, calls: underLoad((n) => on.call(n % 2, "/maps/loads", secret, { id: `${run}.${n}` })) };
};

/** A run of its own each time, so that a test that is tried again does not read the ledger of the try before. */
let runs = 0;

const killsLimiter = async (on: Replicas): Promise<void> => {
  runs += 1;
  const run = `limiter-${runs}`;
  const { org, calls } = await mapLoads(on, run);
  for (let kill = 0; kill < 2; kill += 1) {
    await calls.more(100, "200");
    if (on.redis === null) await on.limiter?.kill();
    else on.redis.signal("SIGKILL");
    await calls.more(CALLERS, "429 limiter_unavailable");
    await (on.redis?.restart() ?? comesBack(on.limiter));
  }
  await calls.more(100, "200");
  await calls.stop();
  await on.settled();
  const admitted = calls.count("200");
  expect(calls.outcomes()).toEqual(["200", "429 limiter_unavailable"]);
  expect(netOf(await on.ledger(`${run}.`))).toBe(admitted);
  expect(await on.used(org)).toBe(admitted);
  expect((await on.counts(run))["200"]).toEqual({ [org]: admitted });
};

describe("over Redis, which writes before it answers", () => {
  const { on } = deployed("redis", hasRedisServer);
  test.skipIf(!hasRedisServer)("after a kill -9 of Redis every admitted call is charged, and nothing else", () =>
    killsLimiter(on()),
  );
});

describe("over SQLite", () => {
  const deployment = deployed("sqlite");

  test("after a kill -9 of the limiter every admitted call is charged, and nothing else", () =>
    killsLimiter(deployment.on()));

  test("after a kill -9 of the key service every key that was made is known, every one revoked stays out, and nobody was told 401", async () => {
    const on = deployment.on();
    const { org, secret, calls } = await mapLoads(on, "keys");
    await calls.stop();
    const admin = await on.adminToken(org);
    const made: { id: string; secret: string }[] = [];
    const revoked = new Set<string>();
    const unsure = new Set<string>();
    const managing = underLoad(async (n) => {
      if (n % 3 === 2 && made.length > revoked.size) {
        const { id } = made.find((one) => !revoked.has(one.id) && !unsure.has(one.id)) ?? { id: "" };
        unsure.add(id);
        const heard = await on.call(n % 2, `/shared-api/api-keys/${id}`, admin, { method: "DELETE" });
        if (heard?.status === 204) revoked.add(id);
        return heard;
      }
      const heard = await on.call(n % 2, "/shared-api/api-keys", admin, {
        body: { kind: "server", scopes: ["design"] },
      });
      if (heard?.status === 201) made.push({ id: heard.json.id as string, secret: heard.json.key as string });
      return heard;
    });
    const reading = underLoad((n) => on.call(n % 2, "/design/styles", secret, { method: "GET" }));
    await managing.more(5, "201");
    await on.keys.kill();
    await Promise.all([managing.more(3, "503"), reading.more(3, "503")]);
    await comesBack(on.keys);
    await Promise.all([managing.more(3, "204"), reading.more(20, "200")]);
    await Promise.all([managing.stop(), reading.stop()]);
    for (const { id, secret } of made) {
      const status = (await on.call(0, "/design/styles", secret, { method: "GET" }))?.status;
      if (revoked.has(id)) expect(status, "a revoked key").toBe(401);
      else if (!unsure.has(id)) expect(status, "a key that was made").toBe(200);
    }
    expect(reading.outcomes()).not.toContain("401");
    await on.settled();
  });

  test("after a kill -9 of the API answered calls are charged exactly, and the rest is within what was in flight", async () => {
    const on = deployment.on();
    const { org, calls } = await mapLoads(on, "api");
    const [first] = on.apis as [Replicas["apis"][0]];
    for (let kill = 0; kill < 2; kill += 1) {
      await calls.more(100, "200");
      await first.kill();
      await calls.more(100, "200");
      await comesBack(first);
    }
    await calls.more(100, "200");
    await calls.stop();
    await on.settled();
    // Refused to connect is "none" too, so in flight at the kills were as many as there are callers, each time, at most.
    const inFlight = Math.min(2 * CALLERS, calls.count("none"));
    // Where the machine stalled, a refund may have been under way.
    const unsettled = calls.count("429 limiter_unavailable");
    const admitted = calls.count("200");
    const net = netOf(await on.ledger("api."));
    expect(calls.count("none")).toBeGreaterThan(0);
    expect(net).toBeGreaterThanOrEqual(admitted);
    expect(net).toBeLessThanOrEqual(admitted + inFlight + unsettled);
    expect(await on.used(org)).toBe(net);
  });

  test("an API killed while refunds wait for the limiter, the sums differ by no more than those", async () => {
    const on = deployment.on();
    const { org, calls } = await mapLoads(on, "refunds");
    await calls.more(100, "200");
    on.limiter?.child.kill("SIGSTOP");
    await calls.more(CALLERS * 2, "429 limiter_unavailable");
    const unsettled = (await on.gauges(0)).unsettled + CALLERS;
    await on.apis[0]?.kill();
    on.limiter?.child.kill("SIGCONT");
    await comesBack(on.apis[0]);
    await calls.more(100, "200");
    await calls.stop();
    await on.settled();
    const admitted = calls.count("200");
    const net = netOf(await on.ledger("refunds."));
    expect(net).toBeGreaterThanOrEqual(admitted);
    expect(net).toBeLessThanOrEqual(admitted + unsettled);
    expect(await on.used(org)).toBe(net);
  });
});

import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type StubApi, startStubApi } from "../../client/stub-api.fixture.ts";
import type { CallLine, FoldLine } from "../../history/line.ts";
import { BASES_ERROR_US, wallUs } from "../../supervision/waiting.ts";
import { createSecrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { constant, type Profile } from "../../workload/load-profiles.ts";
import type { Problem } from "../driver.ts";
import type { OpenLoopJob } from "./play-schedule.ts";
import { runOpenLoop } from "./run-open-loop.fixture.ts";

let stub: StubApi;
beforeEach(async () => {
  stub = await startStubApi();
});
afterEach(() => stub.close());

const jobOf = (
  story: string,
  profile: Profile,
  more: Partial<OpenLoopJob> = {},
  target = stub.target(),
): OpenLoopJob => ({
  stage: story,
  idPrefix: `run1-${story}`,
  story,
  seed: 1,
  profile,
  arrivals: "uniform",
  target,
  view: viewOf(target),
  epochUs: wallUs(),
  timeouts: { callMs: 5000 },
  ...more,
});

/** How late calls left is the machine's affair. */
const isNotAboutTime = ({ about }: Problem): boolean => about !== "time";

const run = async (job: OpenLoopJob) => {
  const lines: CallLine[] = [];
  const result = await runOpenLoop({ job, secrets: createSecrets("."), onLine: (line) => lines.push(line) });
  return { lines, ...result };
};

describe("the open-loop driver", () => {
  test("sends every call of the schedule once, at its moment, and tells of each", async () => {
    const { lines, end, host, problems } = await run(jobOf("catalog-reads", constant(200, 1)));
    expect(problems.filter(isNotAboutTime)).toEqual([]);
    expect(end).toMatchObject({ offered: 200, started: 200, dropped: 0, queued: 0, unmade: 0, cut: 0 });
    expect(lines.map(({ id }) => id).sort()).toEqual(
      Array.from({ length: 200 }, (_, i) => `run1-catalog-reads-${i}`).sort(),
    );
    expect(new Set(stub.asked.map(({ id }) => id)).size).toBe(200);
    const first = Math.min(...lines.map(({ intended_us }) => intended_us));
    for (const line of lines) {
      const i = Number(line.id.split("-").at(-1));
      expect(line.intended_us - first).toBe(i * 5000);
      expect(line.sent_us).toBeGreaterThanOrEqual(line.intended_us);
      expect(line.clock_error_us).toBe(BASES_ERROR_US);
    }
    expect(host).toMatchObject({ cpu_share: expect.any(Number), listen_overflows: expect.any(Number) });
  });

  test("folds admitted calls where it is asked to, and warms up beside the target for a high rate", async () => {
    let n = 0;
    stub.instead = (_, res) => {
      n += 1;
      if (n % 10 !== 0) return false;
      res.writeHead(429, { "retry-after": "1", "content-type": "application/json" });
      res.end('{"error":"rate_limited"}');
      return true;
    };
    const lines: CallLine[] = [];
    const folds: FoldLine[] = [];
    const { end } = await runOpenLoop({
      job: jobOf("catalog-reads", constant(1500, 0.2), { fold: true }),
      secrets: createSecrets("."),
      onLine: (line) => lines.push(line),
      onFold: (line) => folds.push(line),
    });
    expect(end).toMatchObject({ offered: 300, started: 300 });
    // The target has seen the calls of the schedule, and nothing of the warm-up.
    expect(stub.asked).toHaveLength(300);
    expect(lines.map(({ outcome }) => outcome)).toEqual(Array.from({ length: 30 }, () => "429 rate_limited"));
    expect(folds.reduce((sum, { offered }) => sum + offered, 0)).toBe(270);
    expect(new Set(folds.map(({ outcome, stage }) => `${stage} ${outcome}`))).toEqual(new Set(["catalog-reads 200"]));
  });

  test("a stalled server does not hold back the calls after it", async () => {
    // From the first call on: how long our own process takes to start is the machine's affair.
    let begunMs: number | undefined;
    stub.instead = (_, res) => {
      begunMs ??= performance.now();
      setTimeout(() => res.end("{}"), Math.max(0, begunMs + 1500 - performance.now()));
      return true;
    };
    const { lines, end } = await run(jobOf("catalog-reads", constant(100, 0.6)));
    expect(end!.started).toBe(60);
    expect(stub.inFlightMax).toBe(60);
    // The one that should have left first waited longest: latency is from the intended moment.
    const latency = (i: number): number => {
      const line = lines.find(({ id }) => id.endsWith(`-reads-${i}`))!;
      return line.done_us - line.intended_us;
    };
    expect(latency(0)).toBeGreaterThan(latency(59));
  });

  test("more calls at once than it may hold are dropped, told, and make the run inconclusive", async () => {
    stub.instead = (_, res) => {
      setTimeout(() => res.end("{}"), 400);
      return true;
    };
    const { lines, end, problems } = await run(jobOf("catalog-reads", constant(100, 0.3), { maxOutstanding: 10 }));
    expect(end).toMatchObject({ offered: 30, started: 10, dropped: 20 });
    expect(lines).toHaveLength(10);
    expect(problems.filter(isNotAboutTime)).toMatchObject([
      { verdict: "inconclusive", reason: /bottleneck: 20 of 30/ },
    ]);
  });

  test("too few connections are told as well", async () => {
    stub.instead = (_, res) => {
      setTimeout(() => res.end("{}"), 200);
      return true;
    };
    const target = stub.target({ transport: { connections: 4 } });
    const { lines, problems } = await run(jobOf("catalog-reads", constant(100, 0.2), {}, target));
    expect(lines).toHaveLength(20);
    expect(problems).toMatchObject([{ verdict: "inconclusive", reason: /one of our 4 connections/ }]);
  });

  test("two segments send the whole schedule between them, and nothing twice", async () => {
    const parts = await Promise.all(
      [0, 1].map((index) => run(jobOf("catalog-reads", constant(100, 0.5), { segment: { index, of: 2 } }))),
    );
    expect(parts.map(({ lines }) => lines.length)).toEqual([25, 25]);
    expect(new Set(stub.asked.map(({ id }) => id)).size).toBe(50);
  });

  test("streams that outlast the drain are cut, and each still has its line", async () => {
    stub.streamMs = 60_000;
    const { lines, end } = await run(jobOf("chat-past-capacity", constant(50, 0.2), { drainMs: 200 }));
    expect(end).toMatchObject({ started: 10, cut: 10 });
    expect(lines).toHaveLength(10);
    for (const line of lines) expect(line).toMatchObject({ ended: "closed_by_client", aborted: true });
  });

  test("sessions that a story uses are minted before its first call, and have lines", async () => {
    const { lines, problems } = await run(jobOf("smoke", constant(100, 1)));
    expect(problems.filter(isNotAboutTime)).toEqual([]);
    const mints = lines.filter(({ id }) => /-s\d+$/.test(id));
    expect(mints.map(({ route }) => route)).toEqual(new Array(mints.length).fill("sdk.sessions"));
    const firstCall = stub.asked.findIndex(({ id }) => !/-s\d+$/.test(id));
    expect(firstCall).toBe(mints.length);
    expect(lines.length).toBe(100 + mints.length);
  });

  test("a session that cannot be had ends the run before it begins, with the reason", async () => {
    stub.instead = ({ path }, res) => {
      if (!path.endsWith("/sdk/sessions")) return false;
      res.writeHead(403).end('{"detail":"sessions_disabled"}');
      return true;
    };
    const { end, problems } = await run(jobOf("smoke", constant(100, 0.2)));
    expect(end).toBeNull();
    expect(problems).toMatchObject([{ verdict: "inconclusive", reason: /no session for .* 403 sessions_disabled/ }]);
  });

  test("clients that honour Retry-After come back later, the others at once, each attempt with a line", async () => {
    stub.instead = (_, res) => {
      res.writeHead(429, { "retry-after": "1" }).end('{"error":"b2b_overloaded"}');
      return true;
    };
    const { lines } = await run(jobOf("retry-storm", constant(20, 0.1)));
    const attempts = (i: number) =>
      lines.filter(({ id }) => new RegExp(`-storm-${i}(r\\d)?$`).test(id)).sort((a, b) => a.sent_us - b.sent_us);
    for (const i of [0, 1])
      expect(attempts(i).map(({ id }) => id.at(-1))).toEqual([String(i), "1", "2", "3"].map(String));
    const waited = (i: number) => attempts(i)[1]!.sent_us - attempts(i)[0]!.done_us;
    expect(waited(0)).toBeGreaterThanOrEqual(1_000_000);
    expect(waited(1)).toBeLessThan(waited(0));
  });

  test("stop ends the arrivals, and what is under way ends by itself", async () => {
    stub.streamMs = 300;
    const lines: CallLine[] = [];
    const stop = new AbortController();
    const running = runOpenLoop({
      job: jobOf("chat-past-capacity", constant(50, 60)),
      secrets: createSecrets("."),
      onLine: (line) => lines.push(line),
      signal: stop.signal,
    });
    while (stub.asked.length < 5) await new Promise((resolve) => setTimeout(resolve, 10));
    stop.abort();
    const { end, problems } = await running;
    expect(problems.filter(isNotAboutTime)).toEqual([]);
    expect(end!.started).toBe(lines.length);
    expect(lines.every(({ ended }) => ended === "done")).toBe(true);
  });

  test("the process ends when the runner's end of its pipe closes", async () => {
    let pid = 0;
    const { end, problems } = await runOpenLoop({
      job: jobOf("catalog-reads", constant(10, 600)),
      secrets: createSecrets("."),
      onLine: () => undefined,
      onSpawn: (child) => {
        pid = child.pid!;
        setTimeout(() => child.stdin!.destroy(), 500);
      },
    });
    expect(end).toBeNull();
    expect(problems).toMatchObject([{ verdict: "inconclusive", reason: /ended before its schedule/ }]);
    expect(() => process.kill(pid, 0)).toThrow();
  });

  test.skipIf(process.platform !== "linux")(
    "credentials are read by the runner and stand in neither arguments nor environment of the process",
    async () => {
      process.env.STUB_SERVER_KEY = "svc_sk_live_fromenvironment";
      const tenants = stub.target().tenants!.map((tenant) => ({ ...tenant, server: { key: "env:STUB_SERVER_KEY" } }));
      const target: Target = stub.target({ tenants });
      let spawned = { args: ["unread"], names: ["unread"] };
      const lines: CallLine[] = [];
      await runOpenLoop({
        job: jobOf("catalog-reads", constant(50, 0.5), {}, target),
        secrets: createSecrets("."),
        onLine: (line) => lines.push(line),
        onSpawn: (child) => {
          const environment = readFileSync(`/proc/${child.pid}/environ`, "utf8").split("\0").filter(Boolean);
          spawned = { args: child.spawnargs, names: environment.map((one) => one.slice(0, one.indexOf("="))) };
        },
      });
      delete process.env.STUB_SERVER_KEY;
      expect(spawned.args.join(" ")).not.toMatch(/svc_/);
      // Of all variables: where Node keeps the code that it has compiled, without which the program loads three times as long.
      expect(spawned.names).toEqual(["NODE_COMPILE_CACHE"]);
      expect(lines).toHaveLength(25);
      const sent = stub.asked.map(({ headers }) => headers.authorization ?? headers["x-api-key"]);
      expect(sent.every((value) => String(value).endsWith("svc_sk_live_fromenvironment"))).toBe(true);
    },
  );

  test("a budget of map loads is used up to the last one, however many are in flight and refused", async () => {
    let n = 0;
    stub.instead = ({ path }, res) => {
      if (!path.endsWith("/maps/loads")) return false;
      const isRefused = n++ % 3 !== 0;
      setTimeout(() => (isRefused ? res.writeHead(429).end('{"error":"org_overloaded"}') : res.end("{}")), 150);
      return true;
    };
    const tenants = [{ org: "org_a", server: { key: "svc_sk_live_a" } }];
    const target = stub.target({
      tenants,
      permits: { quota_burn: true },
      limits: {},
      tile_url: `${stub.url}/maps/tiles/{z}/{x}/{y}`,
    });
    const budget = { map_loads: 7 };
    const { lines, spent, stopped } = await run(jobOf("broken-dependency", constant(100, 5), { budget }, target));
    const charged = lines.filter(({ meter, outcome }) => meter === "map_loads" && outcome === "200");
    expect(charged).toHaveLength(7);
    expect(spent.map_loads).toBe(7);
    expect(stopped?.reason).toBe("budget.map_loads of the target file (7) is spent");
  });
});

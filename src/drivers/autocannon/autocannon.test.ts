import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type StubApi, startStubApi } from "../../client/stub-api.fixture.ts";
import type { CallLine } from "../../history/line.ts";
import { wallUs } from "../../supervision/waiting.ts";
import { createSecrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import { type Budget, guardBudget } from "../../workload/budget.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { constant } from "../../workload/load-profiles.ts";
import { driveAutocannon, notPlain } from "./autocannon.ts";

let stub: StubApi;
beforeEach(async () => {
  stub = await startStubApi();
});
afterEach(() => stub.close());

type More = { target?: Target; durationS?: number; connections?: number; maxPerS?: number; signal?: AbortSignal };

const run = async (name: string, stated: Budget = {}, more: More = {}) => {
  const { durationS = 1, connections = 4, maxPerS, signal = new AbortController().signal } = more;
  const stated_ = more.target ?? stub.target();
  const target: Target = { ...stated_, transport: { ...stated_.transport, connections } };
  const budget = guardBudget(stated);
  const lines: CallLine[] = [];
  const result = await driveAutocannon(maxPerS === undefined ? {} : { maxPerS })({
    job: {
      ...{
        stage: name,
        idPrefix: "run1.bench.c",
        story: name,
        seed: 1,
        target,
        view: viewOf(target),
        epochUs: wallUs(),
      },
      ...{ profile: constant(maxPerS ?? 5_000, durationS), arrivals: "uniform" },
    },
    secrets: createSecrets("."),
    budget,
    onLine: (line) => void lines.push(line),
    signal,
  });
  const byOutcome: Record<string, number> = {};
  for (const { outcome } of lines) byOutcome[outcome] = (byOutcome[outcome] ?? 0) + 1;
  return {
    ...result,
    lines,
    byOutcome,
    calls: lines.length,
    spent: budget.spent(),
    stopped: budget.stopped?.reason ?? null,
  };
};

describe("the autocannon driver", () => {
  test("keeps its connections busy with the story's calls, each with an id and its caller's key", async () => {
    const { byOutcome, calls, problems, lines, spent } = await run("catalog-reads");
    expect(problems).toEqual([]);
    expect(Object.keys(byOutcome)).toEqual(["200"]);
    expect(calls).toBe(stub.asked.length);
    expect(spent.requests).toBe(stub.asked.length);
    expect(new Set(lines.map(({ id }) => id))).toEqual(new Set(stub.asked.map(({ id }) => id)));
    for (const { intended_us, started_us, sent_us, first_us, done_us } of lines) {
      expect([intended_us, started_us]).toEqual([sent_us, sent_us]);
      expect(sent_us <= first_us! && first_us! <= done_us).toBe(true);
    }
    expect(stub.inFlightMax).toBeLessThanOrEqual(4);
    const ids = stub.asked.map(({ id }) => id);
    expect(new Set(ids)).toEqual(new Set(ids.map((_, i) => `run1.bench.c-${i}`)));
    const story = STORIES.get("catalog-reads")!;
    for (const { id, path, headers } of stub.asked) {
      const [step] = story.plan(1, Number(id.split("-").at(-1)), viewOf(stub.target()));
      expect(path).toBe(`/v1${step!.path}`);
      expect(String(headers.authorization ?? headers["x-api-key"])).toMatch(/svc_sk_live_tenant/);
    }
  });

  test("refusals and errors under status 200 keep their names", async () => {
    let n = 0;
    stub.instead = (_, res) => {
      const answers = [
        () => res.writeHead(429).end('{"error":"org_overloaded"}'),
        () => res.end('{"error":"no route"}'),
        () => res.writeHead(302, { location: `${stub.url}/elsewhere` }).end(),
      ];
      answers[n++ % answers.length]!();
      return true;
    };
    const { byOutcome } = await run("catalog-reads");
    expect(Object.keys(byOutcome).sort()).toEqual(["200 error", "429 org_overloaded", "edge 302"]);
    expect(stub.asked.some(({ path }) => path.includes("elsewhere"))).toBe(false);
  });

  test("not one request more leaves than its budget allows", async () => {
    const { calls, spent, stopped, problems } = await run("catalog-reads", { requests: 37 }, { durationS: 20 });
    expect(stub.asked).toHaveLength(37);
    expect(calls).toBe(37);
    expect(spent.requests).toBe(37);
    expect(stopped).toBe("budget.requests of the target file (37) is spent");
    expect(problems).toEqual([{ verdict: "inconclusive", code: "budget-spent", reason: `stopped early: ${stopped}` }]);
  });

  test("a budget is used up to the last request also at a permitted rate", async () => {
    const stated = { requests: 60, maxPerS: 40 };
    const { spent } = await run("catalog-reads", stated, { durationS: 20, connections: 16 });
    expect(stub.asked).toHaveLength(60);
    expect(spent.requests).toBe(60);
  });

  test("no second holds more calls than the rate, by the budget or by a wish: it is asked for half, and says so", async () => {
    for (const [budget, more] of [
      [{ maxPerS: 40 }, {}],
      [{}, { maxPerS: 40 }],
    ] as const) {
      const from = stub.asked.length;
      const stalls = monitorEventLoopDelay({ resolution: 5 });
      stalls.enable();
      const { notes } = await run("catalog-reads", budget, { durationS: 3, connections: 16, ...more });
      expect(notes).toEqual([expect.stringMatching(/half of the 40 calls\/s that are permitted$/)]);
      stalls.disable();
      const at = stub.asked.slice(from).map(({ atMs }) => atMs);
      expect(at.length).toBeGreaterThan(40);
      const most = Math.max(...at.map((begin) => at.filter((one) => one >= begin && one < begin + 1000).length));
      // What was sent while the stub's own process stood still comes to it all at once afterwards.
      expect(most).toBeLessThanOrEqual(40 + Math.ceil((40 * stalls.max) / 1e9));
    }
  });

  test("errors end it long before its time is over", async () => {
    let brokenMs = Number.POSITIVE_INFINITY;
    stub.instead = (_, res) => {
      if (stub.asked.length < 200) return false;
      brokenMs = Math.min(brokenMs, performance.now());
      setTimeout(() => res.writeHead(500).end("{}"), 5);
      return true;
    };
    const { stopped } = await run("catalog-reads", { stopErrorRate: 0.2 }, { durationS: 20 });
    expect(stopped).toMatch(/stop_when\.error_rate/);
    // Its time is over after twenty seconds.
    expect(performance.now() - brokenMs).toBeLessThan(10_000);
  });

  test("a stop lets what is under way come to its end", async () => {
    stub.instead = (_, res) => {
      setTimeout(() => res.end("{}"), 200);
      return true;
    };
    const stopping = new AbortController();
    setTimeout(() => stopping.abort(), 700);
    const { byOutcome } = await run("catalog-reads", {}, { durationS: 20, signal: stopping.signal });
    expect(byOutcome).toEqual({ "200": stub.asked.length });
  });

  test("a connection that the target closes or breaks costs no call that nobody saw", async () => {
    let n = 0;
    stub.instead = (_, res) => {
      n += 1;
      if (n % 5 === 0) res.writeHead(200, { connection: "close" }).end("{}");
      else if (n % 7 === 0) res.socket!.resetAndDestroy();
      else return false;
      return true;
    };
    const { byOutcome, calls, spent } = await run("catalog-reads");
    expect(Object.keys(byOutcome).sort()).toEqual(["200", "indeterminate"]);
    expect(calls).toBe(stub.asked.length);
    expect(spent.requests).toBe(stub.asked.length);
  });

  test("a target that nobody listens at has seen nothing, and the load ends", async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    const target = stub.target({ base_url: `http://127.0.0.1:${port}/v1` });
    const { spent, problems } = await run("catalog-reads", {}, { target, durationS: 20 });
    expect(spent.requests).toBe(0);
    expect(problems.map(({ reason }) => reason).join()).toMatch(/nobody answers/);
  });

  test("a target that it cannot reach safely in the way the file says is refused by name", async () => {
    for (const [more, words] of [
      [{ transport: { proxy: "http://127.0.0.1:1" } }, /a proxy/],
      [{ base_url: "https://127.0.0.1:1/v1" }, /https/],
    ] as const) {
      await expect(run("catalog-reads", {}, { target: stub.target(more) })).rejects.toThrow(words);
    }
  });

  test("plays the stories whose calls are plain requests, and says of the others what is not", () => {
    const view = viewOf(stub.target());
    const plain = [...STORIES.values()].filter((story) => notPlain(story, 1, view) === null).map(({ name }) => name);
    expect(plain).toEqual(
      expect.arrayContaining(["catalog-reads", "rate-limit-edge", "session-storm", "find-read-knee"]),
    );
    expect(plain).not.toContain("steady-mix");
    expect(notPlain(STORIES.get("chat-past-capacity")!, 1, view)).toBe("reads event streams (chat.control)");
  });
});

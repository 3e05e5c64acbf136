import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type StubApi, startStubApi } from "../../client/stub-api.fixture.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { arrivalTimesUs, constant, type Profile, ramp, spike } from "../../workload/load-profiles.ts";
import { k6OrSkip, playK6, ROOT } from "./run-k6.fixture.ts";

const k6 = k6OrSkip();

let stub: StubApi;
beforeEach(async () => {
  stub = await startStubApi();
});
afterEach(() => stub.close());

const run = (story: string, profile: Profile, more: Parameters<typeof playK6>[3] = {}) =>
  playK6(stub, story, profile, more);

describe.skipIf(k6 === null)("the k6 driver", () => {
  test("every story has its scenario, and every scenario its story", () => {
    const files = readdirSync(join(ROOT, "scenarios")).filter(
      (name) => name.endsWith(".ts") && !name.endsWith(".d.ts"),
    );
    expect(files.map((name) => name.replace(".ts", "")).sort()).toEqual([...STORIES.keys()].sort());
    // Without its teardown nobody would wait for the calls that are under way when the VUs have nothing more to do.
    const exported = "export const { options, setup, teardown, handleSummary }";
    expect(files.filter((name) => !readFileSync(join(ROOT, "scenarios", name), "utf8").includes(exported))).toEqual([]);
  });

  test("the same calls arrive as from our own driver, and each has a line in the history's form", async () => {
    const { lines, problems } = await run("catalog-reads", constant(100, 1));
    expect(problems).toEqual([]);
    expect(lines).toHaveLength(100);
    expect(new Set(stub.asked.map(({ id }) => id))).toEqual(new Set(lines.map(({ id }) => id)));
    const target = stub.target();
    for (const line of lines) {
      const i = Number(line.id.split("-").at(-1));
      const [step] = STORIES.get("catalog-reads")!.plan(1, i, viewOf(target));
      expect(line).toMatchObject({
        driver: "k6",
        org: step!.org,
        route: step!.route,
        outcome: "200",
        facts: step!.facts,
      });
      expect(stub.asked.find(({ id }) => id === line.id)!.path).toBe(`/v1${step!.path}`);
      expect(line.intended_us).toBeLessThanOrEqual(line.sent_us);
      expect(line.sent_us).toBeLessThanOrEqual(line.done_us);
    }
  });

  test("iterations for which the story plans no call lack no line", async () => {
    const server = (org: string) => ({ org, server: { key: `svc_sk_live_${org}` } });
    const target = stub.target({ tenants: [server("org_a"), server("org_b")] });
    const profile = constant(150, 1);
    const { lines, problems } = await run("noisy-neighbour-alone", profile, { target, view: viewOf(target) });
    expect(problems).toEqual([]);
    expect([lines.length > 0, lines.length < 150]).toEqual([true, true]);
  });

  test("every call goes through transport.proxy, to loopback as well, and the proxy may be a reference", async () => {
    process.env.FLOODGATE_TEST_PROXY = new URL(stub.url).origin;
    try {
      const target = stub.target({
        base_url: "http://127.0.0.1:1/v1",
        transport: { proxy: "env:FLOODGATE_TEST_PROXY" },
      });
      const { lines } = await run("catalog-reads", constant(20, 1), { target, view: viewOf(target) });
      expect(lines.length).toBeGreaterThan(10);
      expect(stub.asked).toHaveLength(lines.length);
      for (const { path } of stub.asked) expect(path).toMatch(/^http:\/\/127\.0\.0\.1:1\/v1\//);
    } finally {
      delete process.env.FLOODGATE_TEST_PROXY;
    }
  });

  test.each([
    ["uniform", constant(50, 1)],
    ["poisson", constant(50, 1)],
    ["poisson", ramp(100, 1)],
    ["poisson", spike(40, 1)],
  ] as const)("intended moments are those of the schedule: %s, case %#", async (arrivals, profile) => {
    const { lines, problems } = await run("catalog-reads", profile, { arrivals });
    expect(problems).toEqual([]);
    const wantedUs = arrivalTimesUs(profile, arrivals, 1);
    const zeroUs = (lines.find(({ id }) => id.endsWith("-0"))?.intended_us ?? 0) - (wantedUs[0] as number);
    const gotUs = lines.map(({ id, intended_us }) => [Number(id.split("-").at(-1)), intended_us - zeroUs] as const);
    expect(gotUs.sort(([one], [other]) => one - other)).toEqual(wantedUs.map((us, i) => [i, us]));
    expect(lines.every(({ started_us, intended_us }) => started_us >= intended_us)).toBe(true);
  });

  test("streams tell their end and the names of their events", async () => {
    const { lines, problems } = await run("chat-past-capacity", constant(50, 1));
    expect(problems).toEqual([]);
    for (const line of lines) {
      expect(line).toMatchObject({ outcome: "200", ended: "done", events: 3, event_names: ["token", "done"] });
      expect(line.first_us).toBeGreaterThan(line.sent_us);
    }
  });

  test("refusals, broken answers and errors under status 200 keep their names", async () => {
    let n = 0;
    stub.instead = (_, res) => {
      const answers = [
        () => res.writeHead(429, { "retry-after": "1" }).end('{"error":"b2b_overloaded"}'),
        () => res.writeHead(429).end('{"detail":"rate_limited"}'),
        () => res.writeHead(502).end("<html>"),
        () => res.socket!.resetAndDestroy(),
        () => res.end('{"error":"no route"}'),
      ];
      answers[n++ % answers.length]!();
      return true;
    };
    const { lines } = await run("catalog-reads", constant(50, 1));
    const outcomes = new Set(lines.map(({ outcome }) => outcome));
    expect(outcomes).toEqual(
      new Set(["429 b2b_overloaded", "429 rate_limited", "edge 502", "indeterminate", "200 error"]),
    );
    expect(lines.find(({ outcome }) => outcome === "429 b2b_overloaded")).toMatchObject({
      retry_after: "1",
      envelope: "flat",
    });
    expect(lines.find(({ outcome }) => outcome === "indeterminate")).toMatchObject({
      error: expect.stringMatching(/^connection_(?:reset|closed)$/),
    });
  });

  test("sessions are minted beforehand, and no token stands in what a scenario prints", async () => {
    const kept = await mkdtemp(join(tmpdir(), "floodgate-test-"));
    const { lines, problems } = await run("smoke", constant(50, 1), { keepIn: kept });
    expect(problems).toEqual([]);
    expect(lines.filter(({ id }) => /-s\d+$/.test(id)).length).toBeGreaterThan(0);
    const exchange = lines.find(({ route, outcome }) => route === "sdk.sessions" && outcome === "200")!;
    expect(exchange.expires_in).toBe(900);
    expect(JSON.stringify(lines)).not.toMatch(/svc_(pk|sk|sess)_live/);
    expect(readdirSync(kept)).toEqual(["smoke.json"]);
    await rm(kept, { recursive: true });
  });

  test("a secret that cannot be had is told, and nothing is sent", async () => {
    const tenants = stub.target().tenants!.map((tenant) => ({ ...tenant, server: { key: "env:FLOODGATE_UNSET_KEY" } }));
    const { problems } = await run("catalog-reads", constant(20, 1), { target: stub.target({ tenants }) });
    expect(problems).toMatchObject([{ verdict: "inconclusive", reason: /FLOODGATE_UNSET_KEY/ }]);
    expect(stub.asked).toEqual([]);
  });

  test("the secrets are gone while k6 still runs", async () => {
    const folders = () => readdirSync(tmpdir()).filter((name) => name.startsWith("floodgate-k6-"));
    const before = folders();
    let during: string[] | undefined;
    stub.instead = () => {
      // Looked at again with each call: a k6 that a busy machine made late sends many at once.
      if (stub.asked.length >= 100 && during?.includes("0-handover.json") !== false) {
        during = folders()
          .filter((name) => !before.includes(name))
          .flatMap((name) => readdirSync(join(tmpdir(), name)));
      }
      return false;
    };
    const { problems } = await run("catalog-reads", constant(100, 2));
    expect(problems).toEqual([]);
    expect(during).toContain("0-printed.ndjson");
    expect(during).not.toContain("0-handover.json");
  });

  test("a wall clock that was set back since the runner began moves no moment of a call", async () => {
    const now = performance.now.bind(performance);
    using _ = vi.spyOn(performance, "now").mockImplementation(() => now() + 600_000);
    const { lines, problems } = await run("catalog-reads", constant(20, 1), { segments: 2 });
    expect(problems).toEqual([]);
    expect(lines).toHaveLength(20);
    for (const { intended_us, done_us } of lines) {
      expect(intended_us).toBeGreaterThan(0);
      expect(done_us).toBeLessThan(120e6);
    }
  });

  test("leaves no file with secrets behind", async () => {
    // Its own folder: other runs on this machine, a calibration among them, have theirs.
    const folders: string[] = [];
    await run("catalog-reads", constant(20, 1), { onFolder: (path) => folders.push(path) });
    expect(folders).toHaveLength(1);
    expect(folders.filter((path) => existsSync(path))).toEqual([]);
  });

  test("a missing VU makes calls late and drops none: their lag is in the history and puts the run in doubt", async () => {
    stub.instead = (_, res) => {
      setTimeout(() => res.end("{}"), 250);
      return true;
    };
    const { lines, problems, late } = await run("catalog-reads", constant(40, 1), { vus: 5 });
    expect(lines).toHaveLength(40);
    const lags = lines.map(({ started_us, intended_us }) => started_us - intended_us);
    // Five VUs make 20 calls a second of the 40.
    expect(Math.max(...lags)).toBeGreaterThan(500_000);
    expect(late).toEqual([
      {
        ...{ verdict: "inconclusive", code: "generator-was-the-limit", about: "time" },
        reason: expect.stringMatching(/bottleneck/),
      },
    ]);
    expect(problems).toEqual([]);
  });

  test("a script that throws leaves the stage open, although k6 ends with code 0", async () => {
    const folder = await mkdtemp(join(tmpdir(), "floodgate-test-"));
    const script = join(folder, "throws.ts");
    const shared = `${ROOT.replace(/\/$/, "")}/scenarios/shared`;
    await writeFile(
      script,
      `import { catalogReads } from "${ROOT.replace(/\/$/, "")}/src/workload/stories/reads.ts";
       import { scenarioOf } from "${shared}/scenario.ts";
       const scenario = scenarioOf(catalogReads, {});
       export const { options, setup, teardown, handleSummary } = scenario;
       export default () => { throw new Error("boom"); };`,
    );
    const { problems } = await run("catalog-reads", constant(20, 1), { scenario: script });
    const open = { verdict: "inconclusive", about: undefined };
    expect(problems).toContainEqual({ ...open, code: "program-failed", reason: expect.stringMatching(/boom/) });
    expect(problems).toContainEqual({ ...open, code: "too-few-calls", reason: "k6 made no calls" });
    await rm(folder, { recursive: true });
  });

  test("a binary that is not there, and options that are not valid, are told as what they are", async () => {
    const missing = await run("catalog-reads", constant(20, 1), { k6Path: "/nowhere/k6" });
    expect(missing.problems[0]).toMatchObject({
      verdict: "inconclusive",
      reason: expect.stringMatching(/could not be started.*ENOENT/),
    });
    const invalid = await run("catalog-reads", constant(20, 1), { vus: -1 });
    expect(invalid.problems[0]).toMatchObject({ verdict: "inconclusive", reason: expect.stringMatching(/options/) });
  });

  test.each([
    ["uniform", constant(20, 3)],
    ["poisson", ramp(30, 4)],
  ] as const)(
    "segments make every call once between them, at the moments of the whole schedule: %s, case %#",
    async (arrivals, profile) => {
      const { lines, problems } = await run("catalog-reads", profile, { segments: 3, arrivals });
      expect(problems).toEqual([]);
      const wantedUs = arrivalTimesUs(profile, arrivals, 1);
      const gotUs = lines
        .map(({ id, intended_us }) => [Number(id.split("-").at(-1)), intended_us] as const)
        .sort(([one], [other]) => one - other);
      // One zero for all three: the distances are exactly those of the schedule, whichever process made the call.
      const zeroUs = (gotUs[0]?.[1] ?? 0) - (wantedUs[0] as number);
      expect(gotUs.map(([i, us]) => [i, us - zeroUs])).toEqual(wantedUs.map((us, i) => [i, us]));
      expect(lines.every(({ started_us, intended_us }) => started_us >= intended_us)).toBe(true);
    },
  );

  test("more segments than calls: each call is made once", async () => {
    const { lines, problems } = await run("catalog-reads", constant(2, 1), { segments: 4 });
    expect(problems).toEqual([]);
    expect(lines.map(({ id }) => Number(id.split("-").at(-1))).sort()).toEqual([0, 1]);
  });

  test("segments mint a session once for all of them", async () => {
    await run("smoke", constant(40, 1), { segments: 2 });
    const minted = stub.asked.filter(({ id }) => /-s\d+$/.test(id));
    expect(minted.length).toBeGreaterThan(0);
    expect(new Set(minted.map(({ id }) => id)).size).toBe(minted.length);
  });

  test("a session that ends during the test is minted anew, once for all VUs, and has a line", async () => {
    stub.expiresIn = 2;
    const startedMs = performance.now();
    const good = new Map<string, number>();
    let stale = 0;
    stub.instead = ({ path, headers }, res) => {
      const token = String(headers.authorization ?? "").replace("Bearer ", "");
      if (path.endsWith("/sdk/sessions") || !token.startsWith("svc_sess_live_aaaaa")) return false;
      const seenMs = good.get(token) ?? performance.now();
      good.set(token, seenMs);
      if (performance.now() - seenMs > 2_200) stale += 1;
      res.end("{}");
      return true;
    };
    const { lines, problems, spent } = await run("smoke", constant(60, 7));
    expect(problems).toEqual([]);
    expect(stale).toBe(0);
    const renewals = lines.filter(({ id }) => /-v\d+s\d+$/.test(id));
    expect(renewals.length).toBeGreaterThan(0);
    for (const line of renewals) expect(line).toMatchObject({ route: "sdk.sessions", outcome: "200", expires_in: 2 });
    // Not each of the VUs: a session of 2 s is due after 1.2 s.
    const sessions = new Set(stub.asked.filter(({ id }) => /-s\d+$/.test(id)).map(({ id }) => id)).size;
    const rounds = Math.ceil((performance.now() - startedMs) / 1_200) + 1;
    expect(renewals.length).toBeLessThanOrEqual(sessions * rounds);
    expect(spent.requests).toBe(stub.asked.length);
    expect(lines).toHaveLength(stub.asked.length);
  });
});

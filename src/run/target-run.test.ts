/** A recorded run on a deployment that is not ours, as a user has it: a target file, a budget, fixtures, observers. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type StubApi, startStubApi } from "../client/stub-api.fixture.ts";
import type { Fault } from "../faults/fault.ts";
import { outcomesOf } from "../history/outcomes-of.fixture.ts";
import type { RunDocument, StageSummary } from "../history/run-document.ts";
import type { Series, StageSeries } from "../history/series.ts";
import { sumOf } from "../history/statistics/statistics.ts";
import { terminalText } from "../report/terminal.ts";
import type { LoadStage } from "../stages/stage-plan.ts";
import { readJournal } from "../supervision/journal.ts";
import type { Target } from "../target/target.ts";
import { LogReader } from "./access-log/read-log.ts";
import { playQuietly } from "./play-quietly.fixture.ts";
import { judgeAgain } from "./read-run.ts";
import { scenarioStage } from "./suites/suites.ts";

type Rig = {
  folder: string;
  stub: StubApi;
  play(more: Partial<Target>, wish?: object): Promise<RunDocument>;
};

/** A deployment and a folder of its own for each. */
const withRig = async (body: (rig: Rig) => Promise<void>): Promise<void> => {
  const folder = await mkdtemp(join(tmpdir(), "floodgate-target-run-"));
  const stub = await startStubApi();
  try {
    await body({ folder, stub, play: (more, wish = {}) => play(folder, stub, more, wish) });
  } finally {
    await stub.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
};

const play = async (folder: string, stub: StubApi, more: Partial<Target>, wish: object): Promise<RunDocument> => {
  const stage = scenarioStage("steady-mix", { ratePerS: 40, durationS: 2, ...wish });
  if (stage === null) throw new Error("there is no such scenario");
  const uncalibrated = more.slo === undefined || undefined;
  const target = stub.target(more);
  return playQuietly({ profile: "load-steady-mix", folder, target, stages: () => [stage], uncalibrated });
};
const claimOf = (document: RunDocument, id: string) => document.claims.find((claim) => claim.id === id);

// Most of a run is waiting.
describe.concurrent("a run on a target file", () => {
  test("sends exactly its budget, ends in order and says so", () =>
    withRig(async ({ stub, play }) => {
      const document = await play({ budget: { requests: 25 } });
      expect(stub.asked).toHaveLength(25);
      expect(document.spent?.requests).toBe(25);
      expect(document.exit_code).toBe(4);
      const completed = claimOf(document, "run/completed");
      expect(completed).toMatchObject({ code: "budget-spent" });
      expect(completed?.reason).toContain("budget.requests of the target file (25) is spent");
    }));

  test("stops when too many of the newest calls are errors", () =>
    withRig(async ({ stub, play }) => {
      let n = 0;
      stub.instead = (_, res) => {
        n += 1;
        if (n < 20 || n % 2 === 0) return false;
        res.writeHead(500, { "content-type": "application/json" }).end("{}");
        return true;
      };
      const document = await play({ stop_when: { error_rate: 0.2 } }, { durationS: 20 });
      expect(document.exit_code).toBe(4);
      expect(claimOf(document, "run/completed")?.reason).toContain("stop_when.error_rate");
      expect(document.spent?.requests).toBe(stub.asked.length);
      expect(stub.asked.length).toBeLessThan(200);
    }));

  test("fails where an idle deployment sheds every tenth call of ordinary load", () =>
    withRig(async ({ stub, play }) => {
      let n = 0;
      stub.instead = (_, res) => {
        n += 1;
        if (n % 10 !== 0) return false;
        res
          .writeHead(429, { "content-type": "application/json", "retry-after": "1" })
          .end('{"error":"b2b_overloaded"}');
        return true;
      };
      const limits = { global_in_flight: 500, org_in_flight: 500, replicas: 1 };
      const document = await play({ shedding: "fixed", exclusive: true, limits });
      expect(claimOf(document, "sheds-only-over-the-cap/steady-mix")?.verdict).toBe("fail");
    }));

  test("writes its series, whose bins add up to every outcome, and the same series when it is judged again", () =>
    withRig(async ({ folder, stub, play }) => {
      let n = 0;
      stub.instead = (_, res) => {
        n += 1;
        if (n % 3 !== 0) return false;
        res.writeHead(n % 6 === 0 ? 503 : 502, { "content-type": "application/json" }).end("{}");
        return true;
      };
      const document = await play({});
      const text = readFileSync(join(folder, "run", "series.json"), "utf8");
      const { stages } = JSON.parse(text) as Series;
      expect(stages.map(({ stage }) => stage)).toEqual(document.stages.map(({ name }) => name));
      expect(stages.map(outcomesOf)).toEqual(document.stages.map(({ by_outcome }) => by_outcome));
      const [series] = stages as [StageSeries];
      const { sent } = (document.stages[0] as StageSummary).calls;
      expect(Object.keys(series.by_outcome).length).toBeGreaterThan(2);
      expect([series.offered, series.started, series.ended].map(sumOf)).toEqual([sent, sent, sent]);
      expect(series.generator.generator_cores?.some((cores) => cores !== null)).toBe(process.platform === "linux");
      expect(`${JSON.stringify(judgeAgain(join(folder, "run")).series)}\n`).toBe(text);
      expect(readFileSync(join(folder, "run", "report.html"), "utf8")).toContain('<figure class="chart timed"');
    }));

  test("fails where a gateway answered most calls in the API's place, by status and first in every report", () =>
    withRig(async ({ folder, stub, play }) => {
      let n = 0;
      stub.instead = (_, res) => {
        n += 1;
        if (n % 5 === 0) return false;
        res.writeHead(n % 2 === 0 ? 502 : 429, { "content-type": "text/html" }).end("<html>nginx</html>");
        return true;
      };
      const document = await play({});
      const claim = claimOf(document, "answered/steady-mix");
      expect(claim).toMatchObject({ verdict: "fail", level: "must" });
      expect(claim?.reason).toMatch(/did not answer \d+ of \d+ calls .*interval.*\d+ x edge 502/);
      expect(document.exit_code).toBe(1);
      const [word, why, , open] = terminalText(document, { folder }).split("\n");
      expect([word, why, open].join(" ")).toMatch(
        /^FAIL .* broken: answered\/steady-mix.* FAIL +answered\/steady-mix:/,
      );
      const summary = readFileSync(join(folder, "run", "summary.md"), "utf8");
      expect(/^\| .*(?:fail|inconclusive) \|.*$/m.exec(summary.slice(summary.indexOf("## Not passed")))?.[0]).toContain(
        "answered/steady-mix",
      );
      const page = readFileSync(join(folder, "run", "report.html"), "utf8");
      const at = (id: string): number => page.indexOf(id, page.indexOf("<body"));
      const others = document.claims.filter(({ id }) => id !== claim?.id).map(({ id }) => at(id));
      expect(Math.min(...others.filter((each) => each > 0))).toBeGreaterThan(at("answered/steady-mix"));
      expect(judgeAgain(join(folder, "run")).changed).toEqual([]);
    }));

  test.each([
    [403, 3, "inconclusive"],
    [400, 3, "inconclusive"],
    [421, 3, "inconclusive"],
    [502, 3, "inconclusive"],
    [500, 1, "fail"],
  ] as const)("where something answers %i to every call, it ends with %i", (status, code, verdict) =>
    withRig(async ({ folder, stub, play }) => {
      stub.instead = (_, res) => {
        res.writeHead(status, { "content-type": "text/html" }).end("<html>nginx</html>");
        return true;
      };
      const document = await play({});
      expect(document).toMatchObject({ exit_code: code, verdict });
      expect(claimOf(document, "answered/steady-mix")).toMatchObject({ verdict });
      const unreached = claimOf(document, "run/completed")?.reason;
      if (code === 3)
        expect(unreached).toContain(`only a gateway answered, to every call (edge ${status}): is the API`);
      else expect(unreached).toBeUndefined();
      const again = judgeAgain(join(folder, "run"));
      expect(again.changed).toEqual([]);
      expect(again.document.exit_code).toBe(code);
    }),
  );

  test.each(["", '{"status":"ok"}'])("where something serves %j to every call, it ends with 3 and what to do", (body) =>
    withRig(async ({ folder, stub, play }) => {
      stub.instead = (_, res) => {
        res.writeHead(200, { "content-type": "application/json" }).end(body);
        return true;
      };
      const document = await play({});
      expect(document).toMatchObject({ exit_code: 3, verdict: "inconclusive" });
      const said = claimOf(document, "run/reached-the-api")?.reason;
      expect(said).toMatch(/is not the API: it answers 200 to every call.*write the API's own address as base_url/);
      expect(document.claims.filter(({ verdict, stage }) => verdict === "pass" && stage !== "run")).toEqual([]);
      expect(document.spent?.requests).toBe(stub.asked.length);
      const again = judgeAgain(join(folder, "run"));
      expect([again.changed, again.document.exit_code]).toEqual([[], 3]);
    }),
  );

  test("where every call is answered 401, nothing fails: it asks about the keys", () =>
    withRig(async ({ folder, stub, play }) => {
      stub.instead = (_, res) => {
        res.writeHead(401, { "content-type": "application/json" }).end("{}");
        return true;
      };
      const document = await play({ credentials: { server: { key: "svc_sk_live_role" } }, tenants: [] });
      expect(document.exit_code).toBe(4);
      const asked = document.claims.filter(({ reason }) => /answered 401: does the deployment know/.test(reason));
      expect(asked.map(({ verdict }) => verdict)).toContain("inconclusive");
      expect(document.claims.filter(({ verdict }) => verdict === "fail")).toEqual([]);
      expect(judgeAgain(join(folder, "run")).changed).toEqual([]);
    }));

  test("prepares the deployment by its fixtures, reset first, and journals them", () =>
    withRig(async ({ folder, play }) => {
      const fixtures = { reset: "printf r >> done", provision: "exec:printf p >> done; echo ready" };
      const document = await play({ fixtures });
      expect(await readFile(join(folder, "done"), "utf8")).toBe("rp");
      expect(readFileSync(join(folder, "run/logs/fixtures-provision.log"), "utf8")).toContain("ready");
      const { entries } = readJournal(join(folder, "run/journal.ndjson"));
      expect(entries.filter(({ kind, phase }) => kind === "fixture" && phase === "undone")).toHaveLength(2);
      expect(document.exit_code).toBe(0);
    }));

  test("sends nothing when a fixture fails, and exits 3 with what the command said", () =>
    withRig(async ({ stub, play }) => {
      const document = await play({ fixtures: { provision: "echo no database >&2; exit 7" } });
      expect(document.exit_code).toBe(3);
      expect(claimOf(document, "run/completed")?.reason).toMatch(/fixtures\.provision .*exit code 7.*no database/);
      expect(stub.asked).toEqual([]);
    }));

  test("leaves a secret that the target echoes in no file", () =>
    withRig(async ({ folder, stub, play }) => {
      process.env.FLOODGATE_TEST_HEADER = "a-header-nobody-may-see";
      stub.instead = ({ headers }, res) => {
        res.writeHead(403, { "content-type": "application/json" });
        res.end(JSON.stringify({ error: { type: "forbidden", subcode: "nope", message: `${headers["x-canary"]}` } }));
        return true;
      };
      await play({ transport: { headers: { "x-canary": "env:FLOODGATE_TEST_HEADER" } } });
      delete process.env.FLOODGATE_TEST_HEADER;
      expect(stub.asked[0]?.headers["x-canary"]).toBe("a-header-nobody-may-see");
      const files = readdirSync(join(folder, "run"), { recursive: true, withFileTypes: true }).filter((one) =>
        one.isFile(),
      );
      expect(files.length).toBeGreaterThan(8);
      for (const one of files) {
        expect(readFileSync(join(one.parentPath, one.name), "utf8"), one.name).not.toContain("nobody-may-see");
      }
    }));

  test("judges its objectives as a should, and requires what it says must be judged", () =>
    withRig(async ({ play }) => {
      const document = await play({
        // No call over a socket takes ten microseconds, however fast the machine.
        slo: { chat: "ttfe_p50<=5s", catalog: "p50<=0.01ms" },
        required: ["load/steady-mix", "sheds-only-over-the-cap"],
      });
      expect(claimOf(document, "slo/chat/steady-mix")).toMatchObject({ level: "should" });
      const missed = claimOf(document, "slo/catalog/steady-mix");
      expect(missed?.level).toBe("should");
      // It fails where nothing but the target explains it, which is for this machine to say just now.
      if (missed?.verdict !== "fail") {
        expect(missed).toMatchObject({
          verdict: "inconclusive",
          reason: expect.stringContaining("time could not be judged"),
        });
      }
      expect(document.calibration.map(({ name }) => name)).toContain("open-loop: known delay, p50");
      expect(document.verdict).toBe("inconclusive");
      expect(document.required).toContain("sheds-only-over-the-cap");
    }));

  test("an objective of a name that nothing has is refused before anything is sent", () =>
    withRig(async ({ folder, stub, play }) => {
      await expect(play({ slo: { chatt: "p99<=1s" } })).rejects.toThrow(/slo\.chatt: expected the name of one of/);
      const inherited = play({ slo: { constructor: "p99<=1s" } });
      await expect(inherited).rejects.toThrow(/slo\.constructor: expected the name of one of/);
      expect(existsSync(join(folder, "run"))).toBe(false);
      expect(stub.asked).toEqual([]);
    }));

  test("is not begun where one of the same target runs", () =>
    withRig(async ({ stub, play }) => {
      const first = play({}, { durationS: 3 });
      await expect.poll(() => stub.asked.length, { timeout: 120_000 }).toBeGreaterThan(0);
      await expect(play({})).rejects.toThrow(/another run \(process \d+\) works on/);
      await first;
    }));

  test.each([
    ["process", "api", "killed"],
    ["operator", "service", "rolling-deploy"],
  ] as const)("takes a restart by our own %s %s.%s for ours, and says so", (by, component, fault) =>
    withRig(async ({ folder, stub }) => {
      const restarts = join(folder, "restarts");
      const counting = createServer((_, res) => {
        const count = existsSync(restarts) ? readFileSync(restarts, "utf8").length : 0;
        res.end(JSON.stringify({ status: "success", data: { result: [{ value: [0, `${count}`] }] } }));
      });
      await new Promise<void>((resolve) => counting.listen(0, "127.0.0.1", resolve));
      const url = `http://127.0.0.1:${(counting.address() as AddressInfo).port}`;
      const stage = scenarioStage("steady-mix", { ratePerS: 40, durationS: 5, driver: "open-loop" });
      try {
        const document = await playQuietly({
          profile: "load-steady-mix",
          folder,
          uncalibrated: true,
          target: stub.target({
            permits: { writes: false, quota_burn: false, chaos: true, load_max_rps: 200 },
            observers: { prometheus: { url, queries: { restarts: "sum(restarts)" } } },
            // Healing is tried once beforehand, and that may restart as well.
            faults: { [`${component}.${fault}`]: { inject: ["printf x >> restarts"], heal: ["printf x >> restarts"] } },
          }),
          stages: () => [
            {
              ...(stage as LoadStage),
              disturbance: { kind: "faults", name: "ours", faults: [{ by, component, fault } as Fault], holdMs: 200 },
            },
          ],
        });
        expect(readFileSync(restarts, "utf8").length).toBeGreaterThan(0);
        expect(claimOf(document, "reached/steady-mix")?.reason).not.toContain("not by us");
        expect(document.environment.host_notes.join("\n")).toMatch(
          /restarts of the deployment went from 0 to \d meanwhile, which what was done to it explains/,
        );
      } finally {
        await new Promise((resolve) => counting.close(resolve));
      }
    }),
  );

  test("breaks nothing more after a fault that could not be healed: what was left to play is named, and not judged", () =>
    withRig(async ({ folder, stub }) => {
      const stage = scenarioStage("steady-mix", { ratePerS: 40, durationS: 5, driver: "open-loop" }) as LoadStage;
      const broken = (fault: string): LoadStage => ({
        ...stage,
        name: fault,
        disturbance: {
          kind: "faults",
          name: fault,
          faults: [{ by: "process", component: "limiter", fault } as Fault],
          holdMs: 200,
        },
      });
      const commands = (fault: string) => ({ inject: [`touch in-${fault}`], heal: [`test ! -e in-${fault}`] });
      const document = await playQuietly({
        profile: "nightly",
        folder,
        uncalibrated: true,
        target: stub.target({
          permits: { writes: false, quota_burn: false, chaos: true, load_max_rps: 200 },
          faults: { "limiter.killed": commands("killed"), "limiter.stopped": commands("stopped") },
        }),
        stages: () => [broken("killed"), broken("stopped"), stage],
      });
      expect(existsSync(join(folder, "in-killed"))).toBe(true);
      expect(existsSync(join(folder, "in-stopped"))).toBe(false);
      for (const name of ["stopped", "steady-mix"]) {
        expect(claimOf(document, `reached/${name}`)).toMatchObject({ verdict: "inconclusive", got: "not played" });
        expect(claimOf(document, `reached/${name}`)?.reason).toContain("done to the deployment in killed");
      }
      expect(document.exit_code).toBe(4);
      expect(document.claims.filter(({ level, verdict }) => level === "must" && verdict === "fail")).toEqual([]);
    }));

  describe("with a Prometheus", () => {
    let server: Server;
    let value = 1;
    beforeEach(async () => {
      value = 1;
      server = createServer((_, res) => {
        res.setHeader("content-type", "application/json");
        res.end(JSON.stringify({ status: "success", data: { result: [{ value: [0, `${value++}`] }] } }));
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    });
    afterEach(() => void server.close());

    test("reports what it says, and a stage with a restart under load is in doubt", () =>
      withRig(async ({ play }) => {
        const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
        const document = await play({ observers: { prometheus: { url, queries: { restarts: "sum(restarts)" } } } });
        expect(document.measurements.find(({ name }) => name === "observed_restarts")?.value).toBe(2);
        expect(document.claims.find(({ id }) => id === "reached/steady-mix")).toMatchObject({
          verdict: "inconclusive",
          reason: expect.stringContaining("restarts of the deployment went from 1 to 2 meanwhile, and not by us"),
        });
      }));
  });
});

// Alone: the environment is everybody's.
describe("a run in an environment that names a collector", () => {
  test("shows it every call, by the end", () =>
    withRig(async ({ play }) => {
      const bodies: string[] = [];
      const collector = createServer((req, res) => {
        let body = "";
        req.on("data", (chunk: Buffer) => {
          body += chunk.toString();
        });
        req.on("end", () => {
          bodies.push(body);
          res.end("{}");
        });
      });
      await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
      vi.stubEnv("OTEL_EXPORTER_OTLP_ENDPOINT", `http://127.0.0.1:${(collector.address() as AddressInfo).port}`);
      try {
        const document = await play({}, { durationS: 1 });
        const counted = [...(bodies.at(-1) ?? "").matchAll(/"asInt":"(\d+)"/g)].reduce(
          (sum, [, n]) => sum + Number(n),
          0,
        );
        expect(counted).toBe(document.stages[0]?.calls.sent);
        expect(bodies.at(-1)).toContain(`"stringValue":"${document.id}"`);
      } finally {
        vi.unstubAllEnvs();
        await new Promise((resolve) => collector.close(resolve));
      }
    }));
});

test.skipIf(process.platform !== "linux")(
  "a generator that is killed accuses nobody of what it took along, also when judged again",
  () =>
    withRig(async ({ folder, stub, play }) => {
      let n = 0;
      stub.instead = (_, res) => {
        n += 1;
        if (n === 60) for (const pid of generators()) process.kill(pid, "SIGKILL");
        if (n === 1) return false;
        res.writeHead(502, { "content-type": "text/html" }).end("<html>nginx</html>");
        return true;
      };
      const document = await play({}, { durationS: 20 });
      expect(claimOf(document, "reached/steady-mix")?.reason).toMatch(
        /ended before its schedule \(signal SIGKILL, as happens where a limit of memory/,
      );
      const answered = claimOf(document, "answered/steady-mix");
      expect(answered).toMatchObject({
        verdict: "inconclusive",
        reason: expect.stringMatching(/^the stage was cut off/),
      });
      expect(document.exit_code).toBe(4);
      expect(judgeAgain(join(folder, "run")).changed).toEqual([]);
    }),
);

/** The processes below this one that make the open loop's calls. */
const generators = (): number[] =>
  readdirSync("/proc").flatMap((pid) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      const parent = Number(stat.slice(stat.lastIndexOf(")")).split(" ")[2]);
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
      return parent === process.pid && command.includes("open-loop") ? [Number(pid)] : [];
    } catch {
      return [];
    }
  });

test("a replay names the format of the log that it replays, what stood in it, and a clock that jumped back", () =>
  withRig(async ({ folder, stub, play }) => {
    const moments = Array.from({ length: 12 }, (_, k) => (k < 6 ? 578_000 : 0) + 100 * k);
    const reader = new LogReader({ skipUnreadable: true });
    for (const ms of moments) reader.see(`${new Date(Date.UTC(2026, 9, 10) + ms).toISOString()} 203.0.113.9 alice`);
    reader.see("half a li");
    const log = LogReader.end([reader]);
    if ("code" in log) throw new Error(log.code);
    // The 578 s in one.
    const wish = { replayOfMs: log.atMs, replayed: log.facts, ratePerS: 11, durationS: 2 };
    const document = await play({}, wish);
    expect(stub.asked.length).toBeGreaterThanOrEqual(12);
    expect(document.stages[0]?.replayed).toEqual(log.facts);
    expect(log.facts).toMatchObject({ format: "iso", calls: 12, unreadable: 1, clock_back: { line: 7 } });
    const notes = document.environment.host_notes.join("\n");
    expect(notes).toMatch(/the log was read as iso: 12 calls in 9 min 38 s/);
    expect(notes).toMatch(/1 of 13 lines \(7\.7 %\) could not be read/);
    expect(notes).toMatch(/at line 7 the clock jumps back by 578 s, and 6 lines in a row/);
    expect(notes).toMatch(/for 577 s of it nothing was called/);
    const page = readFileSync(join(folder, "run", "report.html"), "utf8");
    expect(page).toContain("the log was read as iso");
    for (const file of ["run.json", "report.html", "summary.md", "stages.json"]) {
      expect(readFileSync(join(folder, "run", file), "utf8")).not.toMatch(/203\.0\.113\.9|alice/);
    }
    expect(judgeAgain(join(folder, "run")).document.stages[0]?.replayed).toEqual(log.facts);
  }));

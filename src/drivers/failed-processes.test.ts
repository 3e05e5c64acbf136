/**
 * What a driver does when one of its processes fails, hangs or is killed in the middle of a line. The processes are real, and
 * programs of this test's own where the real ones do not fail on demand.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type StubApi, startStubApi } from "../client/stub-api.fixture.ts";
import type { CallLine } from "../history/line.ts";
import { wallUs } from "../supervision/waiting.ts";
import { createSecrets } from "../target/secrets.ts";
import { guardBudget } from "../workload/budget.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { constant } from "../workload/load-profiles.ts";
import type { Drive } from "./driver.ts";
import { driveK6 } from "./k6/k6.ts";
import { runK6Script } from "./k6/user-script.ts";
import { driveOpenLoop, openLoopBy } from "./open-loop/driver.ts";

const KEY = "svc_sk_live_0123456789abcdef";
const folder = mkdtempSync(join(tmpdir(), "floodgate-failed-"));
let stub: StubApi;
beforeAll(async () => {
  stub = await startStubApi();
});
afterAll(async () => {
  await stub.close();
  rmSync(folder, { recursive: true, force: true });
});

let programs = 0;
const program = (name: string, code: string): string => {
  const path = join(folder, `${programs++}-${name}`);
  writeFileSync(path, `#!${process.execPath}\n${code}`, { mode: 0o755 });
  return path;
};

/** An hour of load: whoever waits for its end does not come back within this test. */
const driveOf = (segments: number, seconds = 3_600) => {
  const pids: number[] = [];
  const lines: CallLine[] = [];
  const target = stub.target();
  const drive: Drive = {
    job: {
      stage: "stage",
      idPrefix: "run1-stage",
      story: "catalog-reads",
      seed: 1,
      profile: constant(20, seconds),
      arrivals: "uniform",
      target,
      view: viewOf(target),
      epochUs: wallUs(),
      timeouts: { callMs: 5_000 },
    },
    secrets: createSecrets("."),
    budget: guardBudget({}),
    segments,
    onLine: (line) => lines.push(line),
    onSpawn: ({ pid }) => void (pid !== undefined && pids.push(pid)),
    signal: new AbortController().signal,
  };
  return { drive, lines, pids };
};

const isGone = (pid: number): boolean => {
  try {
    return !process.kill(pid, 0);
  } catch {
    return true;
  }
};

/** A process of the open-loop driver that does as it is told by its segment. */
const OPEN_LOOP = (first: string, second: string): string =>
  program(
    "open-loop.mjs",
    `
    const say = (message) => process.stdout.write(JSON.stringify(message) + "\\n");
    const end = () => { say({ type: "end", end: { offered: 1, started: 1, startUs: 0, endUs: 1, lagMs: { p99: 0 } }, problems: [], spent: { requests: 0, map_loads: 0, analyses: 0, stream_seconds: 0 }, stopped: null, host: null }); process.exit(0); };
    let held = "";
    process.stdin.on("data", (chunk) => {
      const parts = (held + chunk).split("\\n");
      held = parts.pop();
      for (const part of parts) {
        const message = JSON.parse(part);
        if (message.type === "job") (message.job.segment?.index ?? 0) === 0 ? first() : second();
        if (message.type === "stop" && !globalThis.deaf) end();
      }
    });
    process.stdin.on("end", () => process.exit(0));
    setInterval(() => undefined, 1000);
    const ready = () => say({ type: "ready" });
    function first() { ${first} }
    function second() { ${second} }
    `,
  );

describe.concurrent("the open-loop driver", () => {
  test.each<[what: string, first: string, second: string, reason: RegExp]>([
    ["is never ready", "ready()", "", /it did not get ready in time/],
    ["ends before it is ready", "ready()", "process.exit(3)", /ended before its schedule \(code 3\)/],
    ["ends in the middle of its schedule", "ready()", "ready(); setTimeout(() => process.exit(4), 300)", /\(code 4\)/],
    ["is killed", "ready()", "ready(); setTimeout(() => process.kill(process.pid, 'SIGKILL'), 300)", /signal SIGKILL/],
    [
      "fails, while the other does not stop when it is asked",
      "globalThis.deaf = true; ready()",
      "ready(); setTimeout(() => process.exit(5), 300)",
      /\(code 5\)/,
    ],
  ])("ends all its processes when one of two %s", async (_what, first, second, reason) => {
    const { drive, pids } = driveOf(2);
    const { problems } = await openLoopBy({ path: OPEN_LOOP(first, second), silentMs: 1_500 })(drive);
    expect(problems).toContainEqual({
      ...{ verdict: "inconclusive", code: "program-failed", reason: expect.stringMatching(reason) },
    });
    expect(pids).toHaveLength(2);
    expect(pids.filter((pid) => !isGone(pid))).toEqual([]);
  });

  test("ends all its processes when one cannot be put in hand", async () => {
    const { drive, pids } = driveOf(2);
    const onSpawn: Drive["onSpawn"] = (child) => {
      drive.onSpawn?.(child);
      if (pids.length === 2) throw new Error("the journal is full");
    };
    const path = OPEN_LOOP("ready()", "ready()");
    await expect(openLoopBy({ path, silentMs: 5_000 })({ ...drive, onSpawn })).rejects.toThrow("the journal is full");
    expect(pids.filter((pid) => !isGone(pid))).toEqual([]);
  });

  test.each([
    ["half a line", `process.stdout.write('{"type":"call","id":"x","note":"${KEY}')`],
    ["what is no message", `process.stdout.write('null\\n42\\n{"type":"call"}\\n{}\\n[1]\\n')`],
  ])("takes %s for a doubt of the stage, and repeats nothing of it", async (_what, code) => {
    const { drive, lines } = driveOf(1);
    // What it wrote is read before it ends.
    const path = OPEN_LOOP(`ready(); ${code}; setTimeout(() => process.kill(process.pid, "SIGKILL"), 300)`, "");
    const { problems } = await openLoopBy({ path, silentMs: 5_000 })({
      ...drive,
      onLine: (line) => {
        if (line.started_us === undefined) throw new TypeError("it is no call");
        lines.push(line);
      },
    });
    const reasons = problems.map((problem) => problem.reason).join("\n");
    expect(reasons).toMatch(/\d lines? of the open-loop driver could not be read/);
    expect(reasons).not.toContain(KEY);
    expect(lines).toEqual([]);
  });

  test("reads an answer with every line separator that is none between processes", async () => {
    const { drive, lines } = driveOf(1, 1);
    const odd = "rate\u2028limited\u2029by\rall";
    stub.instead = (_, res) => {
      res
        .writeHead(429, { "content-type": "application/json", "retry-after": "1" })
        .end(JSON.stringify({ error: odd }));
      return true;
    };
    const { problems } = await driveOpenLoop(drive);
    stub.instead = () => false;
    expect(problems.filter(({ about }) => about !== "time")).toEqual([]);
    expect(lines.filter(({ attempt }) => attempt === 0)).toHaveLength(20);
  });
});

/** A k6 that does as it is told by its segment; `printed` is where its lines go. */
const K6 = (first: string, second: string): string =>
  program(
    "k6.cjs",
    `
    const { appendFileSync, readFileSync } = require("node:fs");
    const argument = (name) => process.argv.find((one) => one.startsWith(name))?.slice(name.length + 1) ?? "";
    const handed = process.env.FLOODGATE_HANDOVER;
    const printed = handed && JSON.parse(readFileSync(handed, "utf8")).printPath;
    process.on("SIGUSR1", () => { if (!globalThis.deaf) process.exit(0); });
    setInterval(() => undefined, 1000);
    if (argument("--execution-segment").startsWith("1/")) { ${second} } else { ${first} }
    `,
  );

describe.concurrent("k6", () => {
  test.each<[what: string, first: string, second: string, reason: RegExp]>([
    ["ends at once", "", "process.exit(107)", /k6 ended with code 107/],
    ["is killed", "", "setTimeout(() => process.kill(process.pid, 'SIGKILL'), 300)", /k6 was ended by SIGKILL/],
    [
      "fails, while the other does not stop when it is asked",
      "globalThis.deaf = true",
      "process.exit(104)",
      /code 104/,
    ],
  ])("ends all its processes when one of two %s", async (_what, first, second, reason) => {
    const { drive, pids } = driveOf(2);
    const { problems, isCutOff } = await driveK6({ k6Path: K6(first, second), scenario: "-", vus: 2 })(drive);
    expect(isCutOff).toBe(true);
    expect(problems.map((problem) => problem.reason).join("\n")).toMatch(reason);
    expect(pids).toHaveLength(2);
    expect(pids.filter((pid) => !isGone(pid))).toEqual([]);
  });

  test("leaves half a line, and what has the notation of a line alone, as a doubt of the stage", async () => {
    const { drive, lines } = driveOf(1);
    const wrong = [`{"type":"call"}`, "null", `{"type":"spent"}`, `{"type":"mint","id":1}`, "42"].join("\\n");
    const code = `appendFileSync(printed, '${wrong}\\n{"type":"call","i":0,"note":"${KEY}'); setTimeout(() => process.exit(2), 500)`;
    const { problems } = await driveK6({ k6Path: K6(code, ""), scenario: "-", vus: 2 })(drive);
    const reasons = problems.map((problem) => problem.reason).join("\n");
    expect(reasons).toMatch(/[56] lines of the scenario could not be read/);
    expect(reasons).not.toContain(KEY);
    expect(lines).toEqual([]);
  });

  test("that cannot be started is a doubt of the stage", async () => {
    const { drive } = driveOf(2);
    const { problems } = await driveK6({ k6Path: join(folder, "nowhere"), scenario: "-", vus: 2 })(drive);
    expect(problems).toContainEqual({
      ...{ verdict: "inconclusive", code: "program-failed" },
      reason: expect.stringContaining("could not be started"),
    });
  });

  test("of a user's own script is killed when it cannot be put in hand", async () => {
    let pid = 0;
    const onSpawn: Drive["onSpawn"] = (child) => {
      pid = child.pid as number;
      throw new Error("the journal is full");
    };
    const account = join(folder, "account.json");
    const running = runK6Script({ binary: K6("", ""), script: "-", args: [], account, onSpawn });
    await expect(running).rejects.toThrow("the journal is full");
    expect(isGone(pid)).toBe(true);
  });

  test("of a user's own script is over when it ends, whatever it left behind with its output", async () => {
    const left = join(folder, "left");
    const code = `const { pid } = require("node:child_process").spawn("sleep", ["300"], { stdio: "inherit", detached: true });
      require("node:fs").writeFileSync(${JSON.stringify(left)}, String(pid)); process.exit(99);`;
    try {
      const problems = await runK6Script({
        binary: K6(code, ""),
        script: "-",
        args: [],
        account: join(folder, "account.json"),
      });
      expect(problems).toEqual([
        { verdict: "fail", code: "broken", reason: expect.stringContaining("a threshold was crossed") },
      ]);
    } finally {
      process.kill(Number(readFileSync(left, "utf8")));
    }
  });
});

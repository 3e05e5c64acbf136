import { type ChildProcess, spawn } from "node:child_process";
import { appendFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { WATCHDOG_PROCESS } from "../faults/watchdog-process.ts";
import { httpProbe, observeLink } from "../tools/link-probe.ts";
import { startForTests, startUpstream, toxiproxyOrSkip } from "../tools/toxiproxy.fixture.ts";
import { NODE_ARGUMENTS } from "./child.ts";
import { openEffects, openJournal, readJournal } from "./journal.ts";
import { markedProcesses, type ProcessId, signalProcess, startTimeOf } from "./processes.ts";
import { waitUntil } from "./waiting.ts";
import { startWatchdog } from "./watchdog.ts";

const RUNNER = join(import.meta.dirname, "stubborn-runner.fixture.ts");
let folder: string;
let journalPath: string;
/** What a failed test would leave behind. */
let made: ProcessId[];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "floodgate-watchdog-"));
  journalPath = join(folder, "journal.ndjson");
  made = [];
  vi.stubEnv("HEALS_WITH", "all the environment");
});
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const one of made) signalProcess(one, "SIGKILL");
  await rm(folder, { recursive: true });
});

const parentOf = (pid: number): number =>
  Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);

/** Starts the runner and waits until it has made everything; the watchdog is its child too. */
const startRunner = async (
  ...args: string[]
): Promise<{ runner: ChildProcess; pids: number[]; watchdogs: number[] }> => {
  const runner = spawn(process.execPath, [...NODE_ARGUMENTS, RUNNER, journalPath, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const line = await new Promise<string>((resolve, reject) => {
    createInterface(runner.stdout as NodeJS.ReadableStream).once("line", resolve);
    runner.once("exit", (code) => reject(new Error(`the runner ended with ${code}`)));
  });
  const { pids } = JSON.parse(line) as { pids: number[] };
  const watchdogs = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return (
          parentOf(pid) === runner.pid && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("watchdog-process.ts")
        );
      } catch {
        return false;
      }
    });
  for (const pid of [runner.pid as number, ...pids, ...watchdogs]) {
    const start = startTimeOf(pid);
    if (start !== null) made.push({ pid, start });
  }
  return { runner, pids, watchdogs };
};

const untilGone = (pids: number[]): Promise<{ met: boolean }> =>
  waitUntil(async () => pids.every((pid) => startTimeOf(pid) === null), { forMs: 10_000, pollMs: 50 });

describe.skipIf(process.platform !== "linux")("when the runner is killed with SIGKILL", () => {
  test("no process is left: not one that ignores signals, nor a grandchild, nor one that left its group, nor a stopped one, nor the watchdog", async () => {
    const { runner, pids, watchdogs } = await startRunner();
    expect(pids.map(startTimeOf)).not.toContain(null);
    expect(watchdogs).toHaveLength(1);
    runner.kill("SIGKILL");
    await untilGone([...pids, ...watchdogs]);
    expect([...pids, ...watchdogs].filter((pid) => startTimeOf(pid) !== null)).toEqual([]);
    const { entries } = readJournal(journalPath);
    expect(openEffects(entries)).toEqual([]);
    expect(entries.filter((entry) => entry.by === "watchdog" && entry.name === "stubborn")).toMatchObject([
      { phase: "undone", detail: "killed" },
    ]);
  });

  const path = toxiproxyOrSkip();
  test.skipIf(path === null)("a fault on a toxiproxy that is not its child is healed", async () => {
    const upstream = await startUpstream();
    const server = await startForTests(path as string);
    try {
      const { listen } = await server.toxiproxy.createProxy({
        name: "link",
        upstream: upstream.address,
      });
      const { runner, pids, watchdogs } = await startRunner(server.apiUrl, "link");
      expect((await observeLink(httpProbe(listen, "/", 300))).ended).toBe("silent");
      runner.kill("SIGKILL");
      await untilGone([...pids, ...watchdogs]);
      expect(await server.toxiproxy.proxy("link").read()).toMatchObject({ enabled: true, toxics: [] });
      expect((await observeLink(httpProbe(listen, "/", 2_000))).ended).toBe("complete");
    } finally {
      await server.stop();
      await upstream.close();
    }
  });
});

describe("the watchdog", () => {
  const target = { base_url: "http://127.0.0.1:1/v1" };
  const undoBy = (...commands: string[]) =>
    ({ how: "command", fault: "limiter.refused", commands, cwd: folder, target }) as const;
  /** A journal that a live watchdog keeps, as a run has it. */
  const kept = async (mark = "mark-of-no-process") => {
    const journal = openJournal(journalPath);
    const watchdog = await startWatchdog(WATCHDOG_PROCESS, journalPath, mark);
    journal.keptBy(watchdog);
    const start = startTimeOf(watchdog.pid) as string;
    made.push({ pid: watchdog.pid, start });
    return { journal, watchdog };
  };

  test("goes at once when told bye, and takes nothing back", async () => {
    const { journal, watchdog } = await kept();
    const healed = join(folder, "healed");
    journal.about({ kind: "fault", name: "f", undo: undoBy(`touch '${healed}'`) });
    expect(watchdog.isThere()).toBe(true);
    await watchdog.bye();
    expect(watchdog.isThere()).toBe(false);
    expect(existsSync(healed)).toBe(false);
    journal.close();
  });

  test("nothing is broken any more once it has ended; what was broken before is still noted and taken back", async () => {
    const { journal, watchdog } = await kept();
    const undo = undoBy("true");
    const before = journal.about({ kind: "fault", name: "before", undo });
    process.kill(watchdog.pid, "SIGKILL");
    await waitUntil(async () => !watchdog.isThere(), { forMs: 30_000, pollMs: 10 });
    expect(() => journal.about({ kind: "fault", name: "f", undo })).toThrow("the watchdog has ended");
    expect(() => journal.about({ kind: "signal", name: "s", undo: { how: "nothing" } })).toThrow(
      "the watchdog has ended",
    );
    journal.about({ kind: "child", name: "c", undo: { how: "nothing" } });
    journal.done(before);
    journal.undone(before);
    journal.close();
  });

  test("runs a deployment's own heal commands as they are written, in order, and notes it after a torn line", async () => {
    const { journal, watchdog } = await kept();
    const healed = join(folder, "healed");
    const key = `svc_sk_test_${"a1B2".repeat(8)}`;
    const commands = [`exec:printf '${key} ' >> '${healed}'`, `printf "$HEALS_WITH" >> '${healed}'`];
    journal.about({ kind: "fault", name: "limiter.refused", undo: undoBy(...commands) });
    journal.close();
    appendFileSync(journalPath, '{"at":"2026-');
    await watchdog.takeOver();
    expect(watchdog.isThere()).toBe(false);
    expect(readFileSync(healed, "utf8")).toBe(`${key} all the environment`);
    const { entries, torn } = readJournal(journalPath);
    expect(torn).toBe(1);
    expect(entries.at(-1)).toMatchObject({ phase: "undone", by: "watchdog", name: "limiter.refused" });
  });

  test("executes nothing that stands in the journal, whoever wrote it there", async () => {
    const { journal, watchdog } = await kept();
    journal.close();
    const planted = join(folder, "planted");
    const bystander = spawn("sleep", ["600"], { detached: true, stdio: "ignore" });
    const pid = bystander.pid as number;
    const start = startTimeOf(pid) as string;
    made.push({ pid, start });
    const beside = await mkdtemp(join(tmpdir(), "floodgate-beside-"));
    const undos = [
      { how: "command", fault: "limiter.refused", commands: [`touch '${planted}'`], cwd: "/", target },
      { how: "end-process", pid, pgid: pid, start, end_last: false },
      { how: "remove-folder", path: beside },
    ];
    const lines = undos.map((undo, at) => ({ at: "", id: `x${at}`, kind: "fault", phase: "about", name: "x", undo }));
    writeFileSync(journalPath, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    await watchdog.takeOver();
    expect(existsSync(planted)).toBe(false);
    expect(startTimeOf(pid)).toBe(start);
    expect(existsSync(beside)).toBe(true);
    await rm(beside, { recursive: true });
  });

  test("what it could not take back stays open for the next heal, and it goes all the same", async () => {
    const { journal, watchdog } = await kept();
    journal.about({ kind: "fault", name: "f", undo: undoBy("echo no way >&2; exit 3") });
    journal.close();
    await watchdog.takeOver();
    const { entries } = readJournal(journalPath);
    expect(openEffects(entries)).toMatchObject([{ name: "f" }]);
    expect(entries.at(-1)?.detail).toContain("no way");
  });

  test("a heal command that fails is tried again: what ended it may have been the clean-up of a job", async () => {
    const { journal, watchdog } = await kept();
    const tried = join(folder, "tried");
    journal.about({
      kind: "fault",
      name: "f",
      undo: undoBy(`if test -e '${tried}'; then exit 0; fi; : > '${tried}'; exit 1`),
    });
    journal.close();
    await watchdog.takeOver();
    expect(openEffects(readJournal(journalPath).entries)).toEqual([]);
  });

  test("a heal that hangs is cut off, and it is gone within 10 s with all that the heal had started", async () => {
    const pidFile = join(folder, "pid");
    const { journal, watchdog } = await kept();
    journal.about({ kind: "fault", name: "f", undo: undoBy(`sleep 600 & echo $! > '${pidFile}'; wait`) });
    journal.close();
    void watchdog.takeOver();
    const { met } = await waitUntil(async () => !watchdog.isThere(), { forMs: 10_000, pollMs: 50 });
    expect(met).toBe(true);
    expect(startTimeOf(Number(readFileSync(pidFile, "utf8")))).toBeNull();
    expect(openEffects(readJournal(journalPath).entries)).toHaveLength(1);
  });

  test("an operator's change is put back as it was, with the token of the control plane", async () => {
    vi.stubEnv("FLOODGATE_CONTROL_TOKEN", "a-token-of-the-control-plane");
    const state: Record<string, unknown> = { sessions: "disabled", slots: 1 };
    const heard = new Set<string | undefined>();
    const plane = createServer(async (request, response) => {
      heard.add(request.headers.authorization);
      let text = "";
      for await (const chunk of request.setEncoding("utf8")) text += chunk;
      if (request.method === "PATCH") Object.assign(state, JSON.parse(text));
      response.setHeader("connection", "close").end(JSON.stringify(state));
    });
    await new Promise<void>((resolve) => plane.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(plane.address() as AddressInfo).port}`;
    const { journal, watchdog } = await kept();
    const planes = [{ plane: "api", at: 0, was: { sessions: "enabled", slots: 24 }, url }] as const;
    journal.about({ kind: "fault", name: "service.sessions", undo: { how: "deployment", planes, target } });
    journal.close();
    await watchdog.takeOver();
    plane.close();
    expect(state).toEqual({ sessions: "enabled", slots: 24 });
    expect([...heard]).toEqual(["Bearer a-token-of-the-control-plane"]);
    expect(openEffects(readJournal(journalPath).entries)).toEqual([]);
  });

  test("survives the signals that end a terminal's jobs", async () => {
    const { journal, watchdog } = await kept();
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.kill(watchdog.pid, signal);
    expect(startTimeOf(watchdog.pid)).not.toBeNull();
    await watchdog.bye();
    journal.close();
    expect(markedProcesses("mark-of-no-process")).toEqual([]);
  });

  test.skipIf(process.platform !== "linux")(
    "leaves the job's own environment behind, and hands it to heal commands but for what a clean-up looks for",
    async () => {
      const ofJob = ["RUNNER_TRACKING_ID", "JENKINS_NODE_COOKIE", "JENKINS_SERVER_COOKIE", "HUDSON_COOKIE"];
      for (const name of [...ofJob, "BUILD_ID", "CI_JOB_TOKEN"]) vi.stubEnv(name, `value of ${name}`);
      const { journal, watchdog } = await kept();
      const own = readFileSync(`/proc/${watchdog.pid}/environ`, "utf8").split("\0");
      const names = own.map((pair) => pair.split("=")[0]);
      expect(names).toContain("PATH");
      for (const name of [...ofJob, "BUILD_ID", "CI_JOB_TOKEN", "HEALS_WITH"]) expect(names).not.toContain(name);
      const seen = join(folder, "env");
      journal.about({ kind: "fault", name: "f", undo: undoBy(`env > '${seen}'`) });
      journal.close();
      await watchdog.takeOver();
      const handed = readFileSync(seen, "utf8");
      expect(handed).toContain("BUILD_ID=value of BUILD_ID");
      for (const name of ofJob) expect(handed).not.toContain(name);
    },
  );
});

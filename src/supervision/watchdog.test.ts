import { type ChildProcess, spawn } from "node:child_process";
import { appendFileSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { httpProbe, observeLink } from "../chaos/link-probe.ts";
import { startForTests, startUpstream, toxiproxyOrSkip } from "../chaos/toxiproxy.fixture.ts";
import { WATCHDOG_PROCESS } from "../chaos/watchdog-process.ts";
import { Journal, openEffects, readJournal } from "./journal.ts";
import { markedProcesses, type ProcessId, signalProcess, startTimeOf } from "./processes.ts";
import { startWatchdog } from "./start-watchdog.ts";
import { waitUntil } from "./waiting.ts";

const RUNNER = join(import.meta.dirname, "stubborn-runner.fixture.ts");
let folder: string;
let journalPath: string;
/** What a failed test would leave behind. */
let made: ProcessId[];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "floodgate-watchdog-"));
  journalPath = join(folder, "journal.ndjson");
  made = [];
});
afterEach(async () => {
  for (const one of made) signalProcess(one, "SIGKILL");
  await rm(folder, { recursive: true });
});

const parentOf = (pid: number): number =>
  Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);

/** Starts the runner and waits until it has made everything; the watchdog is its child too. */
const startRunner = async (
  ...args: string[]
): Promise<{ runner: ChildProcess; pids: number[]; watchdogs: number[] }> => {
  const runner = spawn(process.execPath, [RUNNER, journalPath, ...args], { stdio: ["ignore", "pipe", "inherit"] });
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
        listen: "127.0.0.1:0",
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
  test("goes at once when told bye, and takes nothing back", async () => {
    const journal = new Journal(journalPath);
    const healed = join(folder, "healed");
    journal.about({ kind: "fault", name: "f", undo: { how: "command", commands: [`touch '${healed}'`] } });
    const watchdog = await startWatchdog(WATCHDOG_PROCESS, journalPath, "mark-of-no-process");
    expect(watchdog.isThere()).toBe(true);
    await watchdog.bye();
    expect(watchdog.isThere()).toBe(false);
    expect(existsSync(healed)).toBe(false);
    journal.close();
  });

  test("runs a deployment's own heal commands, in order, and notes it after a torn line", async () => {
    const journal = new Journal(journalPath);
    const healed = join(folder, "healed");
    const commands = [`exec:printf one >> '${healed}'`, `printf two >> '${healed}'`];
    journal.about({ kind: "fault", name: "limiter.refused", undo: { how: "command", commands } });
    journal.close();
    appendFileSync(journalPath, '{"at":"2026-');
    const watchdog = await startWatchdog(WATCHDOG_PROCESS, journalPath, "mark-of-no-process");
    await watchdog.takeOver();
    expect(watchdog.isThere()).toBe(false);
    expect(readFileSync(healed, "utf8")).toBe("onetwo");
    const { entries, torn } = readJournal(journalPath);
    expect(torn).toBe(1);
    expect(entries.at(-1)).toMatchObject({ phase: "undone", by: "watchdog", name: "limiter.refused" });
  });

  test("what it could not take back stays open for the next heal, and it goes all the same", async () => {
    const journal = new Journal(journalPath);
    journal.about({ kind: "fault", name: "f", undo: { how: "command", commands: ["echo no way >&2; exit 3"] } });
    journal.close();
    const watchdog = await startWatchdog(WATCHDOG_PROCESS, journalPath, "mark-of-no-process");
    await watchdog.takeOver();
    const { entries } = readJournal(journalPath);
    expect(openEffects(entries)).toMatchObject([{ name: "f" }]);
    expect(entries.at(-1)?.detail).toContain("no way");
  });

  test("a heal that hangs is cut off, and it is gone within 10 s with all that the heal had started", async () => {
    const pidFile = join(folder, "pid");
    const journal = new Journal(journalPath);
    journal.about({
      kind: "fault",
      name: "f",
      undo: { how: "command", commands: [`sleep 600 & echo $! > '${pidFile}'; wait`] },
    });
    journal.close();
    const watchdog = await startWatchdog(WATCHDOG_PROCESS, journalPath, "mark-of-no-process");
    const start = startTimeOf(watchdog.pid) as string;
    made.push({ pid: watchdog.pid, start });
    void watchdog.takeOver();
    const { met } = await waitUntil(async () => !watchdog.isThere(), { forMs: 10_000, pollMs: 50 });
    expect(met).toBe(true);
    expect(startTimeOf(Number(readFileSync(pidFile, "utf8")))).toBeNull();
    expect(openEffects(readJournal(journalPath).entries)).toHaveLength(1);
  });

  test("survives the signals that end a terminal's jobs", async () => {
    const watchdog = await startWatchdog(WATCHDOG_PROCESS, journalPath, "mark-of-no-process");
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.kill(watchdog.pid, signal);
    expect(startTimeOf(watchdog.pid)).not.toBeNull();
    await watchdog.bye();
    expect(markedProcesses("mark-of-no-process")).toEqual([]);
  });
});

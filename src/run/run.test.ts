/**
 * A whole run that is ended in the middle, as a user would: by Ctrl-C and by kill -9. What is asked is what is left:
 * nothing, and after a Ctrl-C a report. Real deployment, real faults, real k6.
 */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { ENTRY, type RunningCommand, startCommand } from "../cli/command.fixture.ts";
import type { RunDocument } from "../history/run-document.ts";
import { type JournalEntry, openEffects, readJournal } from "../supervision/journal.ts";
import { isAlive, type ProcessId, parentOf, signalProcess, startTimeOf } from "../supervision/processes.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import { waitUntil } from "../supervision/waiting.ts";

const PART = join(import.meta.dirname, "smoke-part.fixture.ts");
const isBuilt = ["k6", "toxiproxy"].every((name) => existsSync(join(REPOSITORY, ".tools", name)));
const canRun = isBuilt && process.platform === "linux";
if (!canRun) {
  process.stderr.write(
    "SKIPPED: the tests of a run ended in the middle need Linux, .tools/k6 and .tools/toxiproxy (`floodgate dev tools`)\n",
  );
}

const start = (entry: string, ...args: string[]) => startCommand(args, { entry });

const until = async (runner: RunningCommand, what: () => boolean): Promise<void> => {
  const { met } = await waitUntil(async () => what() || runner.child.exitCode !== null, { forMs: 60_000, pollMs: 20 });
  if (!met || !what()) throw new Error(`it did not come so far; it said: ${runner.said()}`);
};

/** The process and everything that it started. */
const familyOf = (root: number): ProcessId[] => {
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc")) if (/^\d+$/.test(name)) parents.set(Number(name), parentOf(Number(name)));
  const found = new Set([root]);
  for (let before = 0; before !== found.size; ) {
    before = found.size;
    for (const [pid, above] of parents) if (found.has(above)) found.add(pid);
  }
  return [...found].flatMap((pid) => {
    const start = startTimeOf(pid);
    return start === null ? [] : [{ pid, start }];
  });
};

/** The folder of one run, and what the run left in it and on the machine. */
const runIn = (out: string) => {
  /** What a failed test would leave behind. */
  let seen: ProcessId[] = [];
  const journal = (): JournalEntry[] => {
    const path = join(out, "journal.ndjson");
    return existsSync(path) ? readJournal(path).entries : [];
  };
  const folders = (): string[] =>
    journal().flatMap(({ undo }) => (undo?.how === "remove-folder" && existsSync(undo.path) ? [undo.path] : []));
  const leftAfter10s = async (): Promise<ProcessId[]> => {
    await waitUntil(async () => !seen.some(isAlive), { forMs: 10_000, pollMs: 50 });
    return seen.filter(isAlive);
  };
  return {
    out,
    journal,
    folders,
    family: (runner: RunningCommand): ProcessId[] => {
      seen = familyOf(runner.child.pid as number);
      return seen;
    },
    isFaultIn: (): boolean => journal().some(({ kind, phase }) => kind === "fault" && phase === "done"),
    report: (): RunDocument => JSON.parse(readFileSync(join(out, "run.json"), "utf8")) as RunDocument,
    expectNothingLeft: async (): Promise<void> => {
      expect(await leftAfter10s()).toEqual([]);
      expect(openEffects(journal())).toEqual([]);
      expect(folders()).toEqual([]);
    },
    end: (): void => {
      for (const one of seen) signalProcess(one, "SIGKILL");
    },
  };
};

const withRun = async (body: (run: ReturnType<typeof runIn>) => Promise<void>): Promise<void> => {
  const parent = await mkdtemp(join(tmpdir(), "floodgate-run-test-"));
  const run = runIn(join(parent, "run"));
  try {
    await body(run);
  } finally {
    run.end();
    await rm(parent, { recursive: true, force: true, maxRetries: 3 });
  }
};

// Much of a run is waiting, but each has a dozen processes.
vi.setConfig({ maxConcurrency: 2 });

describe.skipIf(!canRun)("a run", { concurrent: true }, () => {
  test("that is told to stop once its folder is known ends with 130 and a report that says inconclusive", () =>
    withRun(async ({ out, journal, report }) => {
      const runner = start(ENTRY, "run", "smoke", "--out", out);
      await until(runner, () => runner.said().includes("run folder: "));
      runner.child.kill("SIGINT");
      expect(await runner.exited).toBe(130);
      expect(report()).toMatchObject({ verdict: "inconclusive", exit_code: 130 });
      expect(readFileSync(join(out, "report.html"), "utf8")).toContain("stopped by SIGINT");
      expect(openEffects(journal())).toEqual([]);
    }));

  test("that is told to stop while a link is broken mends it, and says inconclusive", () =>
    withRun(async ({ out, journal, family, isFaultIn, report, expectNothingLeft }) => {
      const runner = start(PART, out, "limiter-reply-lost");
      await until(runner, isFaultIn);
      expect(family(runner).length).toBeGreaterThan(5);
      runner.child.kill("SIGINT");
      expect(await runner.exited).toBe(130);
      expect(report()).toMatchObject({ verdict: "inconclusive", exit_code: 130 });
      const faults = journal().filter(({ kind }) => kind === "fault");
      expect(faults.at(-1)).toMatchObject({ phase: "undone" });
      expect(faults.at(-1)?.by).toBeUndefined();
      await expectNothingLeft();
    }));

  test("that is told to stop while k6 presses holds nothing against the platform", () =>
    withRun(async ({ out, folders, family, report, expectNothingLeft }) => {
      const runner = start(PART, out, "chat-past-capacity");
      await until(runner, () => runner.said().includes("stage 1") && folders().length > 1);
      family(runner);
      runner.child.kill("SIGTERM");
      expect(await runner.exited).toBe(143);
      expect(report().claims.filter(({ verdict }) => verdict === "fail")).toEqual([]);
      expect(report()).toMatchObject({ verdict: "inconclusive", exit_code: 143 });
      await expectNothingLeft();
    }));

  test("that is killed while k6 presses leaves no process, and no file with a credential", () =>
    withRun(async ({ out, journal, folders, family, expectNothingLeft }) => {
      const runner = start(PART, out, "chat-past-capacity");
      await until(runner, () => journal().some(({ name, phase }) => name === "the k6 driver" && phase === "about"));
      expect(folders()).toHaveLength(2);
      expect(family(runner).length).toBeGreaterThan(5);
      runner.child.kill("SIGKILL");
      await expectNothingLeft();
    }));

  test("that is killed while a link is broken leaves no process, and the watchdog mends the link", () =>
    withRun(async ({ out, journal, family, isFaultIn, expectNothingLeft }) => {
      const runner = start(PART, out, "keys-refused");
      await until(runner, isFaultIn);
      expect(family(runner).length).toBeGreaterThan(5);
      runner.child.kill("SIGKILL");
      await expectNothingLeft();
      expect(journal().findLast(({ kind }) => kind === "fault")).toMatchObject({ phase: "undone", by: "watchdog" });
    }));
});

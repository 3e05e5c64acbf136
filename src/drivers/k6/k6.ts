/**
 * The k6 driver: one story, in one process or in several that share the schedule. Secrets reach k6 in a private file
 * that is removed once it was read; calls come back as lines of a file that the extension writes.
 */
import { rmSync } from "node:fs";
import { copyFile, mkdtempDisposable, open, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Protocol } from "../../history/run-document.ts";
import { cutLines } from "../../supervision/lines.ts";
import { writePrivateFile } from "../../supervision/private-file.ts";
import { redact } from "../../supervision/redaction.ts";
import { budgetShare, NOTHING_SPENT, type Stopped } from "../../workload/budget.ts";
import type { HandOver } from "../../workload/handover.ts";
import { startTogetherMs } from "../../workload/k6-executor.ts";
import { profileDurationS } from "../../workload/load-profiles.ts";
import { type Drive, type Driver, LATE_MS, playParts, register, stopWhen } from "../driver.ts";
import { watchHost } from "../host-notes.ts";
import { busyWarnings, inputFor, type K6Input, type K6Run, type K6Setup, planRun } from "./handover.ts";
import { createReader, exitProblem, problemsOf, readSummary, startK6, stoppedBy } from "./k6-process.ts";

const LOOK_EVERY_MS = 50;
const CHUNK_BYTES = 1 << 18;

/**
 * Follows a file while it is written. `finish` is called once writing has ended: it reads to the last line, and rejects
 * with what `onLine` threw.
 */
export const followLines = (path: string, onLine: (text: string) => void): { finish(): Promise<void> } => {
  let isOver = false;
  const read = async (): Promise<void> => {
    await using file = await open(path, "r");
    const buffer = Buffer.alloc(CHUNK_BYTES);
    const lines = cutLines(onLine);
    for (;;) {
      // Taken before the read, so that everything written before `finish` is still read.
      const wasOver = isOver;
      const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES, null);
      if (bytesRead > 0) lines.push(buffer.subarray(0, bytesRead));
      else if (wasOver) return lines.end();
      else await sleep(LOOK_EVERY_MS);
    }
  };
  const reading = read();
  reading.catch(() => undefined);
  return {
    finish: () => {
      isOver = true;
      return reading;
    },
  };
};

/** k6's arguments for one segment. With the sequence, a call has the same number as in the whole schedule. */
const segmentArguments = (index: number, of: number): string[] => {
  if (of === 1) return [];
  const sequence = Array.from({ length: of + 1 }, (_, n) => `${n}/${of}`).join(",");
  return [`--execution-segment=${index}/${of}:${index + 1}/${of}`, `--execution-segment-sequence=${sequence}`];
};

const playSegment = async (run: K6Run & K6Input, index: number, signal: AbortSignal) => {
  const { job, story, timeouts, folder, segments, vus, keepIn } = run;
  const path = (name: string): string => join(folder, `${index}-${name}`);
  const own: Partial<HandOver> = {
    budget: budgetShare(run.handOver.budget ?? {}, index, segments),
    summaryPath: path("summary.json"),
    printPath: path("printed.ndjson"),
  };
  await writePrivateFile(path("handover.json"), JSON.stringify({ ...run.handOver, ...own }));
  await writeFile(path("printed.ndjson"), "", { mode: 0o600 });
  const args = [
    "run",
    "--quiet",
    "--no-color",
    "--log-format=json",
    ...segmentArguments(index, segments),
    run.scenario,
  ];
  const variables = { FLOODGATE_HANDOVER: path("handover.json"), FLOODGATE_BUNDLE: path("scenario.js") };
  const k6 = startK6(run.k6Path, args, { ...run.environment, ...variables }, folder);
  await register(k6.child, k6, run.onSpawn);
  const { callMs } = timeouts;
  const endsMs = performance.now() + startTogetherMs(vus) + profileDurationS(job.profile) * 1000;
  /** Extends the deadline at each line: a line comes whenever a call ends, and no call outlasts its time-out. */
  const stillComing = (): void => {
    if (!signal.aborted) k6.due(Math.max(0, endsMs - performance.now()) + callMs + LATE_MS, "end");
  };
  stillComing();
  stopWhen(signal, k6, callMs, () => k6.child.kill("SIGUSR1"));
  const { seen, take } = createReader({ ...job, story }, run.onLine);
  const following = followLines(path("printed.ndjson"), (text) => {
    // At the first line k6 has read this file. It is removed now, so that a killed runner leaves no secrets behind.
    if (seen.lines === 0) rmSync(path("handover.json"), { force: true });
    stillComing();
    take(text);
  });
  const exit = await k6.exited;
  await following.finish();
  const summary = await readSummary(path("summary.json"));
  if (keepIn !== undefined && summary !== null) {
    const name = segments === 1 ? job.stage : `${job.stage}-${index + 1}-of-${segments}`;
    await copyFile(path("summary.json"), join(keepIn, `${name}.json`));
  }
  const { end } = seen;
  const protocols: Protocol[] = [...(end?.http1 ? (["h1"] as const) : []), ...(end?.http2 ? (["h2"] as const) : [])];
  return {
    hasFailed: !signal.aborted && (end?.stopped ?? null) === null && exitProblem(exit) !== null,
    problems: problemsOf({ exit, summary, seen }),
    stopped: stoppedBy(seen),
    /** The most calls that were in flight at once. */
    most: end?.most ?? 0,
    protocols,
    // A killed k6 has not reported its spending, so every line counts as a request.
    spent: end?.spent ?? { ...NOTHING_SPENT, requests: seen.lines },
    warnings: exit.warnings,
  };
};

type PlayedSegment = Awaited<ReturnType<typeof playSegment>>;

type Played = Pick<PlayedSegment, "problems" | "stopped" | "protocols" | "warnings">;

const unplayed = (why: string, stopped: Stopped | null, error?: unknown): Played => {
  const reason =
    error === undefined ? why : `${why}: ${redact(error instanceof Error ? error.message : String(error))}`;
  return { problems: [{ verdict: "inconclusive", reason }], stopped, protocols: [], warnings: [] };
};

const playSegments = async (run: K6Run & K6Input, beside?: () => Promise<void>): Promise<Played> => {
  const { arrivals, callsAtOnce } = run;
  const play = (index: number, signal: AbortSignal): Promise<PlayedSegment> =>
    playSegment(run, index, signal).catch(
      // If its files could not be written or read, it is unknown what the process played.
      (error: unknown): PlayedSegment => ({
        ...unplayed("a process of k6 could not be followed", null, error),
        ...{ hasFailed: true, most: 0, spent: NOTHING_SPENT },
      }),
    );
  const all = await playParts(run, play, beside);
  const problems = all.flatMap((one) => one.problems);
  const busy = callsAtOnce < arrivals ? busyWarnings(callsAtOnce, all) : [];
  return {
    problems: [...new Map(problems.map((one) => [`${one.verdict} ${one.reason}`, one])).values()],
    stopped: all.find(({ stopped }) => stopped !== null)?.stopped ?? null,
    protocols: [...new Set(all.flatMap(({ protocols }) => protocols))].sort(),
    warnings: [...run.warnings, ...busy, ...new Set(all.flatMap(({ warnings }) => warnings))],
  };
};

export const runK6 = async (setup: K6Setup, drive: Drive, beside?: () => Promise<void>): Promise<Played> => {
  const { budget } = drive;
  const plan = planRun(setup, drive);
  if (plan === null) return unplayed("the schedule had no arrivals", budget.stopped);
  await using folder = await mkdtempDisposable(join(tmpdir(), "floodgate-k6-"));
  drive.onFolder?.(folder.path);
  const run = { ...plan, folder: folder.path };
  const input = await inputFor(run).catch((error: unknown) =>
    unplayed("nothing could be handed to k6", budget.stopped, error),
  );
  return "problems" in input ? { ...input, warnings: run.warnings } : await playSegments({ ...run, ...input }, beside);
};

export const driveK6 =
  (setup: K6Setup): Driver =>
  async (drive, beside) => {
    const pids: number[] = [];
    const host = watchHost({ own: false, pids });
    const onSpawn: Drive["onSpawn"] = (child) => {
      if (child.pid !== undefined) pids.push(child.pid);
      drive.onSpawn?.(child);
    };
    const { problems, warnings, protocols } = await runK6(setup, { ...drive, onSpawn }, beside);
    const notes = warnings.map((warning) => `${drive.job.stage}: k6: ${warning}`);
    return { problems, notes, host: host(), protocols, scheduledMs: profileDurationS(drive.job.profile) * 1000 };
  };

/**
 * k6 behind the port of all drivers: one story, in one process or in several that share the schedule. Secrets reach it in a private
 * file that is gone afterwards; calls come back as lines of a file that the extension writes.
 */
import { rmSync } from "node:fs";
import { copyFile, mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Protocol } from "../../history/run-document.ts";
import { cutLines } from "../../supervision/lines.ts";
import { writePrivateFile } from "../../supervision/private-file.ts";
import { redact } from "../../supervision/redaction.ts";
import { countArrivals } from "../../workload/arrivals.ts";
import { type Budget, budgetShare, endsAll, NOTHING_SPENT, type Spent, type Stopped } from "../../workload/budget.ts";
import { STORIES } from "../../workload/catalogue.ts";
import type { HandOver } from "../../workload/handover.ts";
import { startTogetherMs } from "../../workload/k6-executor.ts";
import { profileDurationS } from "../../workload/load-profiles.ts";
import { TIMEOUTS } from "../../workload/timeouts.ts";
import type { Drive, Driver, Problem } from "../driver.ts";
import { watchHost } from "../host-notes.ts";
import { busyWarnings, inputFor, type K6Input, type K6Run, type K6Setup, vusHere } from "./handover.ts";
import { exitProblem, k6Outputs, startK6 } from "./k6-process.ts";
import { createReader, problemsOf, readSummary, stoppedBy } from "./result.ts";

const LOOK_EVERY_MS = 50;
const CHUNK_BYTES = 1 << 18;

/**
 * Reads a file that is there and still grows. `finish`, to be called when nothing is written any more, ends with the last line;
 * what `onLine` throws ends the reading, and `finish` throws it.
 */
export const followLines = (path: string, onLine: (text: string) => void): { finish(): Promise<void> } => {
  let isOver = false;
  const read = async (): Promise<void> => {
    const file = await open(path, "r");
    try {
      const buffer = Buffer.alloc(CHUNK_BYTES);
      const lines = cutLines(onLine);
      for (;;) {
        // Asked before the read, so that what was written until the end is read after it.
        const wasOver = isOver;
        const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES, null);
        if (bytesRead > 0) lines.push(buffer.subarray(0, bytesRead));
        else if (wasOver) return lines.end();
        else await sleep(LOOK_EVERY_MS);
      }
    } finally {
      await file.close();
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

type Played = { problems: Problem[]; stopped: Stopped | null; protocols: Protocol[]; warnings: string[] };

/** `most`: the most calls that were under way at once. */
type PlayedSegment = Played & { hasFailed: boolean; most: number; spent: Spent };

/** How k6 is asked for its part: exact, with iterations in stripes, so that a call's number is that of the whole. */
const segmentArguments = (index: number, of: number): string[] => {
  if (of === 1) return [];
  const sequence = Array.from({ length: of + 1 }, (_, n) => `${n}/${of}`).join(",");
  return [`--execution-segment=${index}/${of}:${index + 1}/${of}`, `--execution-segment-sequence=${sequence}`];
};

const LATE_MS = 30_000;

/** Why `signal` was aborted: another process of the same schedule failed, so nobody can judge this one's calls. */
const FAILED = "another segment failed";
const FAILED_GRACE_MS = 5_000;

/** `left`: what all segments together may spend. */
type Segments = K6Run & K6Input & { left: Budget; signal: AbortSignal };

const runSegment = async (run: Segments, index: number): Promise<PlayedSegment> => {
  const { setup, drive, story, timeouts, folder, segments, vus, signal } = run;
  const { job, budget } = drive;
  const path = (name: string): string => join(folder, `${index}-${name}`);
  const handed: HandOver = {
    ...run.handOver,
    budget: budgetShare(run.left, index, segments),
    stated: budget.stated,
    summaryPath: path("summary.json"),
    printPath: path("printed.ndjson"),
    // A user who has k6 send its metrics elsewhere wants them all there.
    gapSamples: Object.keys(k6Outputs(process.env)).length > 0,
  };
  await writePrivateFile(path("handover.json"), JSON.stringify(handed));
  await writeFile(path("printed.ndjson"), "", { mode: 0o600 });
  const args = [
    "run",
    "--quiet",
    "--no-color",
    "--log-format=json",
    ...segmentArguments(index, segments),
    setup.scenario,
  ];
  const own = { FLOODGATE_HANDOVER: path("handover.json"), FLOODGATE_BUNDLE: path("scenario.js") };
  const k6 = startK6(setup.k6Path, args, { ...run.environment, ...own }, folder);
  try {
    drive.onSpawn?.(k6.child);
  } catch (error) {
    // What cannot be put in hand must not run.
    k6.kill();
    await k6.exited;
    throw error;
  }
  const { callMs } = timeouts;
  const endsMs = performance.now() + startTogetherMs(vus) + profileDurationS(job.profile) * 1000;
  /** A line comes whenever a call ends, and no call takes longer than its time-out. */
  const stillComing = (): void => {
    if (!signal.aborted) k6.due(Math.max(0, endsMs - performance.now()) + callMs + LATE_MS, "end");
  };
  const stop = (): void => {
    k6.due(signal.reason === FAILED ? FAILED_GRACE_MS : callMs + LATE_MS, "stop");
    k6.child.kill("SIGUSR1");
  };
  stillComing();
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  const { seen, take } = createReader({ ...job, story }, drive.onLine);
  const following = followLines(path("printed.ndjson"), (text) => {
    // k6 has read the file by now, for all VUs; a killed runner leaves no secrets behind.
    if (seen.lines === 0) rmSync(path("handover.json"), { force: true });
    stillComing();
    take(text);
  });
  const exit = await k6.exited;
  signal.removeEventListener("abort", stop);
  await following.finish();
  const summary = await readSummary(path("summary.json"));
  if (setup.keepIn !== undefined && summary !== null) {
    const name = segments === 1 ? job.stage : `${job.stage}-${index + 1}-of-${segments}`;
    await copyFile(path("summary.json"), join(setup.keepIn, `${name}.json`));
  }
  const { end } = seen;
  return {
    hasFailed: !signal.aborted && (end?.stopped ?? null) === null && exitProblem(exit) !== null,
    problems: problemsOf({ exit, summary, seen }),
    stopped: stoppedBy(seen),
    most: end?.most ?? 0,
    protocols: [...(end?.http1 ? (["h1"] as const) : []), ...(end?.http2 ? (["h2"] as const) : [])],
    // A k6 that was killed has not said it: then every line is a request.
    spent: end?.spent ?? { ...NOTHING_SPENT, requests: seen.lines },
    warnings: exit.warnings,
  };
};

const unplayed = (why: string, error?: unknown): Played => {
  const reason =
    error === undefined ? why : `${why}: ${redact(error instanceof Error ? error.message : String(error))}`;
  return { problems: [{ verdict: "inconclusive", reason }], stopped: null, protocols: [], warnings: [] };
};

const distinct = (problems: readonly Problem[]): Problem[] => [
  ...new Map(problems.map((problem) => [`${problem.verdict} ${problem.reason}`, problem])).values(),
];

const playSegments = async (run: K6Run): Promise<Played> => {
  const { drive, arrivals, segments, callsAtOnce } = run;
  const { budget } = drive;
  let input: K6Input;
  try {
    // Gathered once, so that no session is minted twice.
    input = await inputFor(run);
  } catch (error) {
    return { ...unplayed("nothing could be handed to k6", error), stopped: budget.stopped };
  }
  const allOver = new AbortController();
  const signal = AbortSignal.any([allOver.signal, drive.signal]);
  const together: Segments = { ...run, ...input, left: budget.left(), signal };
  const results = await Promise.all(
    Array.from({ length: segments }, async (_, index) => {
      const result = await runSegment(together, index).catch(
        // Its files could not be written or read, so nobody knows what the process played.
        (error: unknown): PlayedSegment => ({
          ...unplayed("a process of k6 could not be followed", error),
          ...{ hasFailed: true, most: 0, spent: NOTHING_SPENT },
        }),
      );
      // Each spends its own share of a budget to the end; errors end the load of all.
      if (endsAll(result.stopped)) allOver.abort();
      else if (result.hasFailed) allOver.abort(FAILED);
      return result;
    }),
  );
  for (const { spent, stopped } of results) budget.absorb(spent, stopped);
  const most = results.map((result) => result.most);
  return {
    problems: distinct(results.flatMap(({ problems }) => problems)),
    stopped: results.find(({ stopped }) => stopped !== null)?.stopped ?? null,
    protocols: [...new Set(results.flatMap(({ protocols }) => protocols))].sort(),
    warnings: [
      ...(callsAtOnce < arrivals ? busyWarnings(callsAtOnce, most) : []),
      ...new Set(results.flatMap(({ warnings }) => warnings)),
    ],
  };
};

export const runK6 = async (setup: K6Setup, drive: Drive): Promise<Played> => {
  const { job, budget } = drive;
  const story = STORIES.get(job.story);
  if (story === undefined) throw new Error(`there is no story called ${job.story}`);
  const arrivals = countArrivals(job.profile, job.arrivals, job.seed);
  if (arrivals === 0) return { ...unplayed("the schedule had no arrivals"), stopped: budget.stopped };
  const folder = await mkdtemp(join(tmpdir(), "floodgate-k6-"));
  try {
    drive.onFolder?.(folder);
    const segments = Math.min(drive.segments ?? 1, arrivals);
    const { warnings, ...places } = vusHere({ ...job, story, vus: setup.vus }, segments);
    const timeouts = { ...TIMEOUTS, ...job.timeouts };
    const played = await playSegments({ setup, drive, story, timeouts, folder, arrivals, segments, ...places });
    return { ...played, warnings: [...warnings, ...played.warnings] };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
};

export const driveK6 =
  (setup: K6Setup): Driver =>
  async (drive, beside) => {
    const pids: number[] = [];
    const host = watchHost({ own: false, pids });
    const ending = new AbortController();
    const onSpawn: Drive["onSpawn"] = (child) => {
      if (child.pid !== undefined) pids.push(child.pid);
      drive.onSpawn?.(child);
    };
    const running = runK6(setup, { ...drive, onSpawn, signal: AbortSignal.any([drive.signal, ending.signal]) });
    try {
      if (beside !== undefined) await Promise.race([beside(), running]).then(() => ending.abort());
      const { problems, warnings, protocols } = await running;
      const notes = warnings.map((warning) => `${drive.job.stage}: k6: ${warning}`);
      return { problems, notes, host: host(), protocols, scheduledMs: profileDurationS(drive.job.profile) * 1000 };
    } finally {
      ending.abort();
      await running.catch(() => undefined);
    }
  };

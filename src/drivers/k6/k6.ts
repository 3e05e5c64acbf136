/**
 * k6 behind the port of all drivers: one story by its scenario file, in one process or in several that share the schedule.
 * Secrets reach k6 in a file that only its owner may read and that is gone afterwards; calls come back as lines of a file that
 * the extension writes.
 */
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { redact } from "../../supervision/redaction.ts";
import { countArrivals } from "../../workload/arrivals.ts";
import { endsAll, NOTHING_SPENT, type Stopped } from "../../workload/budget.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { profileDurationS } from "../../workload/load-profiles.ts";
import { TIMEOUTS } from "../../workload/timeouts.ts";
import type { Drive, Driver, Problem } from "../driver.ts";
import { watchHost } from "../host-notes.ts";
import { busyWarnings, inputFor, type K6Run, type K6Setup, vusHere } from "./handover.ts";
import { FAILED, type K6Played, type K6SegmentResult, runSegment } from "./k6-segment.ts";

const reasonOf = (error: unknown): string => redact(error instanceof Error ? error.message : String(error));

const NOTHING_PLAYED = { iterations: null, dropped: null, unsent: 0, protocols: [], warnings: [] };

const unplayed = (reason: string, stopped: Stopped | null): K6Played => ({
  ...NOTHING_PLAYED,
  problems: [{ verdict: "inconclusive", reason }],
  stopped,
});

/** Its files could not be written or read, so nobody knows what the process played. */
const brokenSegment = (error: unknown): K6SegmentResult => ({
  ...unplayed(`a process of k6 could not be followed: ${reasonOf(error)}`, null),
  hasFailed: true,
  most: 0,
  spent: NOTHING_SPENT,
});

const sum = (values: readonly (number | null)[]): number | null =>
  values.reduce((total, one) => (total === null || one === null ? null : total + one), 0);

const distinct = (problems: readonly Problem[]): Problem[] => [
  ...new Map(problems.map((problem) => [`${problem.verdict} ${problem.reason}`, problem])).values(),
];

const playSegments = async (run: K6Run): Promise<K6Played> => {
  const { drive, arrivals, segments, callsAtOnce } = run;
  const { budget } = drive;
  // Gathered once, so that no session is minted twice.
  const input = await inputFor(run).catch((error: unknown) => `nothing could be handed to k6: ${reasonOf(error)}`);
  if (typeof input === "string") return unplayed(input, budget.stopped);
  const allOver = new AbortController();
  const signal = AbortSignal.any([allOver.signal, drive.signal]);
  const left = budget.left();
  const results = await Promise.all(
    Array.from({ length: segments }, async (_, index) => {
      const result = await runSegment(run, index, { ...input, left, signal }).catch(brokenSegment);
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
    iterations: sum(results.map(({ iterations }) => iterations)),
    dropped: sum(results.map(({ dropped }) => dropped)),
    unsent: results.reduce((total, { unsent }) => total + unsent, 0),
    stopped: results.find(({ stopped }) => stopped !== null)?.stopped ?? null,
    protocols: [...new Set(results.flatMap(({ protocols }) => protocols))].sort(),
    warnings: [
      ...(callsAtOnce < arrivals ? busyWarnings(callsAtOnce, most) : []),
      ...new Set(results.flatMap(({ warnings }) => warnings)),
    ],
  };
};

export const runK6 = async (setup: K6Setup, drive: Drive): Promise<K6Played> => {
  const { job, budget } = drive;
  const story = STORIES.get(job.story);
  if (story === undefined) throw new Error(`there is no story called ${job.story}`);
  const arrivals = countArrivals(job.profile, job.arrivals, job.seed);
  if (arrivals === 0) return unplayed("the schedule had no arrivals", budget.stopped);
  const folder = await mkdtemp(join(tmpdir(), "floodgate-k6-"));
  try {
    drive.onFolder?.(folder);
    await chmod(folder, 0o700);
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
    const { stage, profile } = drive.job;
    const pids: number[] = [];
    const host = watchHost({ own: false, pids });
    const ending = new AbortController();
    const stop = (): void => ending.abort();
    const onSpawn: Drive["onSpawn"] = (child) => {
      if (child.pid !== undefined) pids.push(child.pid);
      drive.onSpawn?.(child);
    };
    drive.signal.addEventListener("abort", stop, { once: true });
    if (drive.signal.aborted) stop();
    const running = runK6(setup, { ...drive, signal: ending.signal, onSpawn });
    try {
      if (beside !== undefined) {
        await Promise.race([beside(), running]);
        stop();
      }
      const { problems, warnings, protocols } = await running;
      return {
        problems,
        notes: warnings.map((warning) => `${stage}: k6: ${warning}`),
        host: host(),
        protocols,
        scheduledMs: profileDurationS(profile) * 1000,
      };
    } finally {
      drive.signal.removeEventListener("abort", stop);
      stop();
      await running.catch(() => undefined);
    }
  };

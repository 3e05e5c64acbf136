/**
 * Runs one story by k6, with its scenario file, in one process or in several that share the schedule. Secrets reach k6 in
 * a file that only its owner may read and that is gone afterwards; calls come back as lines of a file that the extension
 * writes.
 */

import type { ChildProcess } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRunClock, wallUs } from "../../client/clock.ts";
import type { CallLine } from "../../history/line.ts";
import type { Protocol } from "../../history/run-document.ts";
import { redact } from "../../supervision/redaction.ts";
import type { Secrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import { type Arrivals, countArrivals } from "../../workload/arrivals.ts";
import { type BudgetGuard, endsAll, guardBudget, NOTHING_SPENT } from "../../workload/budget.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import type { HandOver } from "../../workload/handover.ts";
import { executorFor, startTogetherMs } from "../../workload/k6-executor.ts";
import type { Profile } from "../../workload/load-profiles.ts";
import type { Story } from "../../workload/story.ts";
import { callsEndMs, TIMEOUTS, type Timeouts } from "../../workload/timeouts.ts";
import type { Problem } from "../driver.ts";
import { collectHandOver, type HandedOver } from "./handover.ts";
import { FAILED, type K6Segment, type K6SegmentResult, runSegment } from "./k6-segment.ts";
import { busyWarnings, vusHere } from "./vus.ts";

export type K6Options = {
  /** Path of the k6 binary that has k6/x/sse. */
  binary: string;
  /** The scenario file, e.g. `scenarios/smoke.ts`. */
  script: string;
  story: Story;
  stage: string;
  idPrefix: string;
  seed: number;
  profile: Profile;
  arrivals: Arrivals;
  target: Target;
  view: TargetView;
  secrets: Secrets;
  /** When the run began, by `wallUs`. */
  epochUs: number;
  firstCall?: number;
  /** How many processes share the schedule and the budget (default 1). */
  segments?: number;
  /** When the first arrival is due, microseconds since 1970; absent: when k6 is ready, several of them at one moment. */
  startUs?: number;
  vus?: number;
  timeouts?: Partial<Timeouts>;
  /** What may be spent and how fast, of all segments together; what k6 spends of it is added to it. Not bounded where absent. */
  budget?: BudgetGuard;
  /** Ends the load in order: nothing more is sent, and what is under way comes to its end. */
  signal?: AbortSignal;
  /** Where k6's summary and what it printed are kept (the run folder's `k6/`); not kept without it. */
  keepIn?: string;
  /** Called as calls end, while k6 runs. */
  onLine(line: CallLine): void;
  onSpawn?(child: ChildProcess): void;
  /** Told of the folder that credentials are about to be put in; it is removed at the end. */
  onFolder?(path: string): void;
};

type K6Result = {
  problems: Problem[];
  /** Iterations that k6 began, and those that it gave up when its time was over, by its own count; `null` without a summary. */
  iterations: number | null;
  dropped: number | null;
  lines: number;
  /** Calls that were not sent, because the budget was spent or its stop condition met; they have no line. */
  unsent: number;
  /** Why the budget let nothing leave any more, as a sentence. */
  stopped: string | null;
  protocols: Protocol[];
  warnings: string[];
};

/** Its moments lie in a file of their own, which the processes share. */
const scheduleFor = async (options: K6Options, folder: string, startUs?: number): Promise<HandOver["schedule"]> => {
  const { momentsUs, ...profile } = options.profile;
  const momentsPath = join(folder, "moments.json");
  if (momentsUs !== undefined) await writeFile(momentsPath, JSON.stringify(momentsUs));
  return {
    profile,
    arrivals: options.arrivals,
    ...(startUs === undefined ? {} : { startUs }),
    ...(momentsUs === undefined ? {} : { momentsPath }),
  };
};

/** Beyond the end of all calls: what is under way when the VUs have nothing more to do comes to its end in teardown. */
const TEARDOWN_MS = 10_000;

type Parts = {
  folder: string;
  budget: BudgetGuard;
  timeouts: Timeouts;
  onLine(line: CallLine): void;
  /** How many calls the schedule has, and how many processes share it. */
  arrivals: number;
  segments: number;
  vus: number;
  callsAtOnce: number;
};

/** What does not depend on the process is gathered once, so that segments mint no session twice and share what is left then. */
const handOverFor = async (
  options: K6Options,
  { arrivals, segments, vus, callsAtOnce, ...parts }: Parts,
): Promise<Pick<K6Segment, "handOver" | "environment"> | string> => {
  const { profile, story } = options;
  let collected: HandedOver;
  try {
    collected = await collectHandOver({ ...options, ...parts, clock: createRunClock(options.epochUs) });
  } catch (error) {
    return `nothing could be handed to k6: ${redact(reasonOf(error))}`;
  }
  const { handOver, environment } = collected;
  const executor = executorFor({ profile, arrivals, vus, gracefulStopMs: parts.timeouts.callMs });
  const startUs = options.startUs ?? (segments === 1 ? undefined : wallUs() + startTogetherMs(vus) * 1000);
  return {
    handOver: {
      ...handOver,
      firstCall: options.firstCall ?? 0,
      callsAtOnce: Math.ceil(callsAtOnce / segments),
      schedule: await scheduleFor(options, parts.folder, startUs),
      options: {
        ...handOver.options,
        teardownTimeout: `${callsEndMs(parts.timeouts) + TEARDOWN_MS}ms`,
        scenarios: { [story.name.replaceAll("-", "_")]: executor },
      },
    },
    environment,
  };
};

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Nothing was played, and why. */
const unplayed = (reason: string, budget: BudgetGuard, lines: number): K6Result => ({
  problems: [{ verdict: "inconclusive", reason }],
  iterations: null,
  dropped: null,
  lines,
  unsent: 0,
  stopped: budget.stopped,
  protocols: [],
  warnings: [],
});

/** Its files could not be written or read: the process may have played, and nobody knows what. */
const brokenSegment = (error: unknown): K6SegmentResult => ({
  hasFailed: true,
  problems: [{ verdict: "inconclusive", reason: `a process of k6 could not be followed: ${redact(reasonOf(error))}` }],
  iterations: null,
  protocols: [],
  dropped: null,
  unsent: 0,
  stopped: null,
  most: 0,
  spent: NOTHING_SPENT,
  warnings: [],
});

const sum = (values: readonly (number | null)[]): number | null =>
  values.reduce((total, one) => (total === null || one === null ? null : total + one), 0);

/** What several processes say alike is said once. */
const distinct = (problems: readonly Problem[]): Problem[] => [
  ...new Map(problems.map((problem) => [`${problem.verdict} ${problem.reason}`, problem])).values(),
];

export const runK6 = async (options: K6Options): Promise<K6Result> => {
  const { profile, budget = guardBudget({}) } = options;
  const timeouts: Timeouts = { ...TIMEOUTS, ...options.timeouts };
  const folder = await mkdtemp(join(tmpdir(), "floodgate-k6-"));
  options.onFolder?.(folder);
  await chmod(folder, 0o700);
  let lines = 0;
  const onLine = (line: CallLine): void => {
    lines += 1;
    options.onLine(line);
  };
  try {
    const arrivals = countArrivals(profile, options.arrivals, options.seed);
    if (arrivals === 0) return unplayed("the schedule had no arrivals", budget, lines);
    // A process without a call of its own would have nothing to run.
    const segments = Math.min(options.segments ?? 1, arrivals);
    const { warnings, ...places } = vusHere(options, segments);
    const handed = await handOverFor(options, { folder, budget, timeouts, onLine, arrivals, segments, ...places });
    if (typeof handed === "string") return unplayed(handed, budget, lines);
    const allOver = new AbortController();
    const signal = options.signal === undefined ? allOver.signal : AbortSignal.any([allOver.signal, options.signal]);
    const { binary, script, keepIn, stage } = options;
    const left = budget.left();
    const results = await Promise.all(
      Array.from({ length: segments }, async (_, index) => {
        const name = segments === 1 ? stage : `${stage}-${index + 1}-of-${segments}`;
        const result = await runSegment({
          vus: places.vus,
          index,
          of: segments,
          binary,
          script,
          folder,
          ...handed,
          budget: left,
          stated: budget.stated,
          signal,
          onLine,
          reading: { ...options, firstCall: options.firstCall ?? 0 },
          ...(keepIn === undefined ? {} : { keepAs: join(keepIn, `${name}.json`) }),
          ...(options.onSpawn === undefined ? {} : { onSpawn: options.onSpawn }),
        }).catch(brokenSegment);
        // Each spends its own share of a budget to the end; errors end the load of all.
        if (endsAll(result.stopped)) allOver.abort();
        else if (result.hasFailed) allOver.abort(FAILED);
        return result;
      }),
    );
    for (const { spent, stopped } of results) budget.absorb(spent, stopped);
    return {
      problems: distinct(results.flatMap(({ problems }) => problems)),
      iterations: sum(results.map(({ iterations }) => iterations)),
      dropped: sum(results.map(({ dropped }) => dropped)),
      lines,
      protocols: [...new Set(results.flatMap(({ protocols }) => protocols))].sort(),
      unsent: results.reduce((total, { unsent }) => total + unsent, 0),
      stopped: results.find(({ stopped }) => stopped !== null)?.stopped ?? null,
      warnings: [
        ...warnings,
        ...(places.callsAtOnce < arrivals
          ? busyWarnings(
              places.callsAtOnce,
              results.map(({ most }) => most),
            )
          : []),
        ...new Set(results.flatMap((result) => result.warnings)),
      ],
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
};

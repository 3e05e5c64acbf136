/**
 * The interface of every driver: plays a story under a load profile, yields call lines, problems and host facts. Below
 * it stands what the drivers share that play one schedule in several processes.
 */
import type { ChildProcess } from "node:child_process";
import type { CallLine, FoldLine } from "../history/line.ts";
import type { Protocol } from "../history/run-document.ts";
import type { HostFacts } from "../history/stage-facts.ts";
import type { BoundedChild } from "../supervision/child.ts";
import type { Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import type { Arrivals } from "../workload/arrivals.ts";
import { type BudgetGuard, endsAll, type Spent, type Stopped } from "../workload/budget.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import type { Profile } from "../workload/load-profiles.ts";
import type { Timeouts } from "../workload/timeouts.ts";

export type DriveJob = {
  stage: string;
  /** Run and stage; call ids are `<idPrefix>-<n>`. */
  idPrefix: string;
  story: string;
  seed: number;
  profile: Profile;
  arrivals: Arrivals;
  target: Target;
  view: TargetView;
  /** When the run began, in microseconds since 1970 (`wallUs`). */
  epochUs: number;
  /** The most calls in flight; further calls are not sent but counted as dropped (default 4096). */
  maxOutstanding?: number;
  /** The open-loop driver busy-waits on a whole core, so that no call is late (`startPacer`). */
  precise?: true;
  /** The deployment is the reference platform, whose answers a folding driver checks more strictly (`looksWrong`). */
  reference?: true;
  /** How long calls may go on after the last arrival (default: the call time-out). */
  drainMs?: number;
  timeouts?: Partial<Timeouts>;
};

export type Problem = {
  verdict: "fail" | "inconclusive";
  reason: string;
  /**
   * `time`: only claims about time are in doubt. `recovery`: a missed recovery deadline, which a stalled machine may
   * also explain.
   */
  about?: "time" | "recovery";
};

export type Drive = {
  job: DriveJob;
  secrets: Secrets;
  /** Asked before each call leaves. A driver's own process gets a share; what it spent is added when it has ended. */
  budget: BudgetGuard;
  segments?: number;
  onLine(line: CallLine): void;
  /** If given, it receives admitted calls folded per second, and `onLine` receives the other calls. */
  onFold?(line: FoldLine): void;
  onProgress?(text: string): void;
  /** Gets the due time of the first call, in microseconds of the run, from a driver that knows it beforehand. */
  onStart?(startUs: number): void;
  onSpawn?(child: ChildProcess): void;
  /** Gets the path of a folder before credentials are written into it. */
  onFolder?(path: string): void;
  signal: AbortSignal;
};

export type Driven = {
  problems: Problem[];
  notes: string[];
  host: HostFacts | null;
  /** How long the schedule ran; 0 if none was played. */
  scheduledMs: number;
  /** Versions of HTTP that connections negotiated. */
  protocols?: readonly Protocol[];
  /** A process ended early and took along what it knew of its calls: what is missing looks like a breach. */
  isCutOff?: boolean;
  /** When the first call was due, in microseconds of the run; absent if unknown or the schedule never began. */
  startUs?: number;
  /** Calls left out, and how late calls were sent; absent if the driver does not count or its schedule did not end. */
  counts?: { dropped: number; queued: number; unmade: number; lagMsP99: number };
};

/** `beside` runs concurrently with the load and ends it when it resolves. Without it the whole schedule is played. */
export type Driver = (drive: Drive, beside?: () => Promise<void>) => Promise<Driven>;

/** A part of a schedule that one process played. `hasFailed`: not all of it is known, so the stage cannot be judged. */
type Part = { spent: Spent; stopped: Stopped | null; hasFailed: boolean };

/** The abort reason when another process, or what runs beside the load, has failed: the stage cannot be judged then. */
const FAILED = "something else failed";
/** How long calls in flight may take after that. */
const FAILED_GRACE_MS = 5_000;
/** How long after the time-out of its last call a process may take to end, before it is killed. */
export const LATE_MS = 30_000;

/**
 * Plays all parts at once. `beside` ends them when it resolves, as do a failure or too many errors in one of them; a
 * spent share of the budget ends only its own part.
 */
export const playParts = async <P extends Part>(
  { budget, segments = 1, signal }: Drive,
  play: (index: number, signal: AbortSignal) => Promise<P>,
  beside?: () => Promise<void>,
): Promise<P[]> => {
  const over = new AbortController();
  const stop = AbortSignal.any([over.signal, signal]);
  const playing = Array.from({ length: segments }, async (_, index) => {
    const part = await play(index, stop);
    if (endsAll(part.stopped)) over.abort();
    else if (part.hasFailed) over.abort(FAILED);
    return part;
  });
  const whole = Promise.all(playing);
  try {
    // The load may end first, by its budget or a failure.
    if (beside !== undefined) await Promise.race([beside(), whole]).then(() => over.abort());
    const parts = await whole;
    for (const { spent, stopped } of parts) budget.absorb(spent, stopped);
    return parts;
  } finally {
    over.abort(FAILED);
    await Promise.allSettled(playing);
  }
};

/** Registers a process. One that cannot be registered must not run. */
export const register = async (child: ChildProcess, { kill, ended }: BoundedChild, onSpawn: Drive["onSpawn"]) => {
  try {
    onSpawn?.(child);
  } catch (error) {
    kill();
    await ended;
    throw error;
  }
};

/** Asks a process to end its load when the signal fires, and has it killed if its calls (`callsMs`) end too late. */
export const stopWhen = (signal: AbortSignal, { due, ended }: BoundedChild, callsMs: number, ask: () => void): void => {
  const stop = (): void => {
    due(signal.reason === FAILED ? FAILED_GRACE_MS : callsMs + LATE_MS, "stop");
    ask();
  };
  signal.addEventListener("abort", stop, { once: true });
  void ended.then(() => signal.removeEventListener("abort", stop));
  if (signal.aborted) stop();
};

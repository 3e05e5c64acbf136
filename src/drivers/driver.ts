/** The port of every driver that writes a history: a story under a load profile in; lines, doubts and spending out. */
import type { ChildProcess } from "node:child_process";
import type { CallLine, FoldLine } from "../history/line.ts";
import type { Protocol } from "../history/run-document.ts";
import type { HostFacts } from "../history/stage-host.ts";
import type { Secrets } from "../target/secrets.ts";
import type { BudgetGuard } from "../workload/budget.ts";
import type { OpenLoopJob, Problem } from "./open-loop/job.ts";

/** What is played, and on whom. */
type DriveJob = Omit<OpenLoopJob, "budget" | "stated" | "segment" | "fold">;

export type Drive = {
  job: DriveJob;
  secrets: Secrets;
  /** Asked before each call leaves; what the driver's process spends of it is added to it. */
  budget: BudgetGuard;
  /** How many processes share the schedule (default 1). */
  segments?: number;
  onLine(line: CallLine): void;
  /** Where given, admitted calls come folded into seconds, and `onLine` hears of all others. */
  onFold?(line: FoldLine): void;
  onProgress?(text: string): void;
  onSpawn?(child: ChildProcess): void;
  /** Of a folder that credentials are about to be put in. */
  onFolder?(path: string): void;
  signal: AbortSignal;
};

export type Driven = {
  problems: Problem[];
  notes: string[];
  /** What generator and host did; `null` where nobody could say. */
  host: HostFacts | null;
  /** How long the schedule ran, 0 when it never began. */
  scheduledMs: number;
  /** Versions of HTTP that were agreed upon, as seen on the wire. */
  protocols?: readonly Protocol[];
  /** When its first call was due, in microseconds of the run; absent where the driver does not know it or it never began. */
  startUs?: number;
};

/** `beside` runs while the load does and ends it when it resolves; without it the whole schedule is played. */
export type Driver = (drive: Drive, beside?: () => Promise<void>) => Promise<Driven>;

/** The port of every driver: a story under a load profile in; a line a call, problems and what the host did out. */
import type { ChildProcess } from "node:child_process";
import type { CallLine, FoldLine } from "../history/line.ts";
import type { Protocol } from "../history/run-document.ts";
import type { HostFacts } from "../history/stage-host.ts";
import type { Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import type { Arrivals } from "../workload/arrivals.ts";
import type { BudgetGuard } from "../workload/budget.ts";
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
  /** When the run began, by `wallUs`. */
  epochUs: number;
  /** More calls at once than this are not sent but counted as dropped (default 4096). */
  maxOutstanding?: number;
  /** The open-loop driver spends a whole core on not being late (`startPacer`). */
  precise?: true;
  /** The deployment is the reference platform, by which a folding driver says which calls look wrong. */
  reference?: true;
  /** How long calls may go on after the last arrival (default: the call time-out). */
  drainMs?: number;
  timeouts?: Partial<Timeouts>;
};

export type Problem = {
  verdict: "fail" | "inconclusive";
  reason: string;
  /**
   * `time`: only claims about time are in doubt. `recovery`: a missed deadline, which a machine that stood still explains
   * as well.
   */
  about?: "time" | "recovery";
};

export type Drive = {
  job: DriveJob;
  secrets: Secrets;
  /** Asked before each call leaves; what the driver's process spends of it is added to it. */
  budget: BudgetGuard;
  segments?: number;
  onLine(line: CallLine): void;
  /** If given, it receives admitted calls folded per second, and `onLine` receives the other calls. */
  onFold?(line: FoldLine): void;
  onProgress?(text: string): void;
  /** Of when the first call is due, in microseconds of the run, by a driver that knows it beforehand. */
  onStart?(startUs: number): void;
  onSpawn?(child: ChildProcess): void;
  /** Of a folder that credentials are about to be put in. */
  onFolder?(path: string): void;
  signal: AbortSignal;
};

export type Driven = {
  problems: Problem[];
  notes: string[];
  host: HostFacts | null;
  /** How long the schedule ran, 0 when it never began. */
  scheduledMs: number;
  /** Versions of HTTP that were agreed upon, as seen on the wire. */
  protocols?: readonly Protocol[];
  /** When its first call was due, in microseconds of the run; absent where the driver does not know it or it never began. */
  startUs?: number;
  /** What the generator left out and how late it sent, by a driver that counts it; absent where its schedule did not end. */
  counts?: { dropped: number; queued: number; unmade: number; lagMsP99: number };
};

/** `beside` runs while the load does and ends it when it resolves; without it the whole schedule is played. */
export type Driver = (drive: Drive, beside?: () => Promise<void>) => Promise<Driven>;

/**
 * The messages between the runner and the open-loop driver's process, one JSON value a line. Everything reaches the
 * process over its stdin, credentials too; it has no arguments and no environment.
 */
import type { CallLine, FoldLine } from "../../history/line.ts";
import type { Protocol } from "../../history/run-document.ts";
import type { Budget, Spent, Stopped } from "../../workload/budget.ts";
import type { DriveJob, Problem } from "../driver.ts";
import type { HostNotes } from "../host-notes.ts";

export type OpenLoopJob = DriveJob & {
  /** This generator's part of the schedule: every `of`-th arrival, beginning with `index`. */
  segment?: { index: number; of: number };
  /** Admitted calls are folded where they were made. */
  fold?: true;
  budget?: Budget;
  /** What the target file states, where `budget` is a share or a rest of it. */
  stated?: Budget;
};

export type ToProcess =
  | { type: "job"; job: OpenLoopJob }
  | { type: "pong"; n: number; atUs: number }
  | { type: "secret"; n: number; value: string }
  | { type: "no-secret"; n: number; message: string }
  /** Begin; `startUs` is the run time of arrival 0. */
  | { type: "go"; startUs?: number }
  | { type: "stop" };

export type OpenLoopEnd = {
  /** Arrivals of the schedule that came due. */
  offered: number;
  started: number;
  /** Not sent because `maxOutstanding` was reached. */
  dropped: number;
  /** Sent while as many calls were under way as there are connections, so they may have waited here. */
  queued: number;
  /** Could not be made, e.g. because no session could be minted. */
  unmade: number;
  /** Not sent because the budget was spent or its stop condition met. */
  unsent: number;
  cut: number;
  startUs: number;
  endUs: number;
  protocols?: Protocol[];
  /** How late calls left, against the schedule: at the moment of sending, not of connecting. */
  lagMs: { p50: number; p99: number; max: number };
};

export type FromProcess =
  | CallLine
  | FoldLine
  | { type: "ping"; n: number }
  | { type: "secret?"; n: number; ref: string; what: string }
  | { type: "forget"; ref: string }
  | { type: "ready"; clockErrorUs: number }
  | { type: "progress"; atUs: number; offered: number; started: number; outstanding: number; done: number }
  | ({ type: "host" } & HostNotes)
  | ({ type: "problem" } & Problem)
  /** What it spent so far, by its own count; the last one is exact. */
  | { type: "spent"; spent: Spent; stopped: Stopped | null }
  | ({ type: "end" } & OpenLoopEnd)
  | { type: "failed"; message: string };

/**
 * What the runner and the open-loop driver's process say to each other: one JSON value a line. Everything reaches the
 * process over its stdin, credentials too; it has neither arguments nor environment of its own.
 */
import type { CallLine, FoldLine } from "../../history/line.ts";
import type { Protocol } from "../../history/run-document.ts";
import type { Target } from "../../target/target.ts";
import type { Arrivals } from "../../workload/arrivals.ts";
import type { Budget, Spent } from "../../workload/budget.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import type { Profile } from "../../workload/load-profiles.ts";
import type { Timeouts } from "../../workload/timeouts.ts";
import type { HostNotes } from "../host-notes.ts";

export type OpenLoopJob = {
  stage: string;
  /** Run and stage; call ids are `<idPrefix>-<n>`. */
  idPrefix: string;
  /** A name of workload/catalogue.ts. */
  story: string;
  seed: number;
  profile: Profile;
  arrivals: Arrivals;
  target: Target;
  view: TargetView;
  /** When the run began, by the runner's clock (run-clock.ts `wallUs`). */
  epochUs: number;
  /** Number of the first call, so that a second stage of a run does not repeat the first one's. */
  firstCall?: number;
  /** This generator's part of the schedule: every `of`-th arrival, beginning with `index`. */
  segment?: { index: number; of: number };
  /** More calls at once than this are not sent but counted as dropped (default 4096). */
  maxOutstanding?: number;
  /** Admitted calls are folded where they were made. */
  fold?: true;
  /** A whole core is spent on not being late (pacer.ts). */
  precise?: true;
  /** The deployment is the reference platform, by which a folding driver says which calls look wrong. */
  reference?: true;
  /** How long calls may go on after the last arrival (default: the call time-out). */
  drainMs?: number;
  timeouts?: Partial<Timeouts>;
  /** What the process may spend and how fast; not bounded where absent. */
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
  /** No further arrivals; what is under way ends. */
  | { type: "stop" };

export type Problem = {
  verdict: "fail" | "inconclusive";
  reason: string;
  /**
   * `time`: it puts in doubt what is about time, and nothing else: every call was sent. `recovery`: it is about a deadline that
   * a machine which stands still misses as well.
   */
  about?: "time" | "recovery";
};

export type OpenLoopEnd = {
  /** Arrivals of the schedule that came due. */
  offered: number;
  /** Arrivals that became calls. */
  started: number;
  /** Not sent because `maxOutstanding` was reached. */
  dropped: number;
  /** Sent while as many calls were under way as there are connections, so they may have waited here. */
  queued: number;
  /** Could not be made, e.g. because no session could be minted. */
  unmade: number;
  /** Not sent because the budget was spent or its stop condition met. */
  unsent: number;
  /** Cut off at the end of the drain. */
  cut: number;
  startUs: number;
  endUs: number;
  /** Versions of HTTP that its connections agreed upon. */
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
  | { type: "spent"; spent: Spent; stopped: string | null }
  | ({ type: "end" } & OpenLoopEnd)
  | { type: "failed"; message: string };

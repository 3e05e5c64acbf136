/**
 * What happens to a deployment during a stage, beside whatever driver makes the load. One that took no effect makes its
 * stage inconclusive.
 */
import type { Problem } from "../../drivers/open-loop/job.ts";
import type { ExploredLink, FaultEvent } from "../../exploration/fault-schedule.ts";
import type { FaultLine } from "../../history/line.ts";
import type { Deployment, LinkName } from "../deployments/deployment.ts";
import type { RunContext } from "../run-context.ts";
import type { RecentCalls } from "./recent-calls.ts";

export type LinkFault = {
  kind: "link-fault";
  /** Name in reports: `limiter-refused`. */
  name: string;
  link: LinkName;
  /** A name of chaos/catalogue.ts. */
  fault: string;
  /** At the least; longer where the load is slow or records are cached for longer. */
  holdMs: number;
  /** A fault that no proxy has: only commands of the target file bring it about. */
  onlyByCommand?: true;
};

/** What an operator changes, one after the other (`PATCH /deployment`); the last puts everything back. */
export type OperatorChanges = {
  kind: "operator-changes";
  changes: readonly { patch: Record<string, unknown>; holdMs: number }[];
};

/** Several faults, each at its own time; load goes on for `restMs` after the last was healed. */
export type FaultsBySchedule = {
  kind: "fault-schedule";
  /** As they are, or drawn from the run's seed: faults now and then for so long, on these links. */
  events: readonly FaultEvent[] | { drawn: number; forMs: number; links: readonly ExploredLink[] };
  restMs: number;
  /** By when the deployment has to be well after the last heal. */
  recoveryMs: number;
};

export type Disturbance = LinkFault | OperatorChanges | FaultsBySchedule;

export type DisturbanceContext = {
  context: RunContext;
  deployment: Deployment;
  stage: string;
  /** Calls a second of the load beside it, at its peak. */
  ratePerS: number;
  /** Fires on a stop signal, and when the load has ended by itself. */
  signal: AbortSignal;
  /** The newest calls of the load beside it. */
  recent: RecentCalls;
  onLine(line: FaultLine): void;
};

/** What came of it: everything that puts the stage in doubt, and notes for its reason. */
export type Disturbed = { problems: Problem[]; notes: string[] };

/** What happens to a deployment during a stage, beside whatever driver makes the load, and what a stage has to know of it. */
import type { Deployment } from "../deployments/deployment.ts";
import type { RunContext } from "../deployments/run-context.ts";
import type { Problem } from "../drivers/driver.ts";
import type { FaultLine, MarkLine } from "../history/line.ts";
import type { FaultState } from "../history/states-reached.ts";
import { type Fault, outcomesOf } from "./fault.ts";
import type { ExploredLink, FaultEvent } from "./fault-schedule.ts";
import type { RecentCalls } from "./seen-by-callers.ts";

/** Faults that are injected once the deployment is steady, in this order, and healed in the other. */
export type Faults = {
  kind: "faults";
  /** Name in reports: `limiter-refused`. */
  name: string;
  faults: readonly [Fault, ...Fault[]];
  /** At the least; longer where the load is slow or records are cached for longer. */
  holdMs: number;
  /** Healed in the order of injection. */
  healsInOrder?: true;
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

export type Disturbance = Faults | OperatorChanges | FaultsBySchedule;

/** Which faults, when and for how long is left to a seed. */
export const areDrawn = (events: FaultsBySchedule["events"]): events is Extract<typeof events, { drawn: number }> =>
  "drawn" in events;

/** The links that a schedule breaks. */
export const linksOf = ({ events }: FaultsBySchedule): readonly ExploredLink[] =>
  areDrawn(events) ? events.links : events.map(({ link }) => link);

type Consequences = {
  /** Experiments break something, unless an operator only changes it in order; what is broken may cut calls short. */
  breaks: boolean;
  /** Callers reach the deployment through a proxy that is broken. */
  breaksEdge: boolean;
  movesClock: boolean;
  /** The seed decides what happens, so nothing in particular has to come about. */
  isDrawn: boolean;
  /** Beginnings of the outcomes that it may cause. */
  mayCause: readonly string[];
};

export const consequencesOf = (disturbance: Disturbance | undefined): Consequences => {
  const faults = disturbance?.kind === "faults" ? disturbance.faults : [];
  return {
    breaks: faults.some(({ by }) => by !== "operator"),
    breaksEdge: faults.some(({ component }) => component === "edge"),
    movesClock: faults.some(({ fault }) => fault === "new-month"),
    isDrawn: disturbance?.kind === "fault-schedule" && areDrawn(disturbance.events),
    mayCause: outcomesOf(faults),
  };
};

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
  onLine(line: FaultLine | MarkLine): void;
  /** What the fault has to meet. */
  meets: readonly FaultState[];
};

/** The result: everything that puts the stage in doubt, and notes for its reason. */
export type Disturbed = {
  problems: Problem[];
  notes: string[];
  /** Something of it may still be in: nothing further may be broken on this deployment. */
  isLeftBroken?: boolean;
};

export const inconclusive = (reason: string): Problem => ({ verdict: "inconclusive", reason });

/** The watchdog beside a proxy that was lost may have healed what a stage is about. */
export const lostWatch = ({ remoteWatch }: Deployment): Problem[] => {
  const lost = remoteWatch?.lost() ?? null;
  return lost === null ? [] : [inconclusive(lost)];
};

/**
 * What happens to a deployment during a stage, beside whatever driver makes the load. One that took no effect makes its
 * stage inconclusive.
 */

import type { Deployment, LinkName } from "../../deployments/deployment.ts";
import type { RunContext } from "../../deployments/run-context.ts";
import type { Problem } from "../../drivers/driver.ts";
import type { FaultLine, MarkLine } from "../../history/line.ts";
import type { FaultState } from "../../history/states-reached.ts";
import type { ExploredLink, FaultEvent } from "../../simulation/fault-schedule.ts";
import type { ProcessFaultName, StoreErrorName } from "../experiments/experiment-entry.ts";
import type { RecentCalls } from "./recent-calls.ts";

type Breaking = {
  /** Name in reports: `limiter-refused`. */
  name: string;
  /** At the least; longer where the load is slow or records are cached for longer. */
  holdMs: number;
  /** Nothing here brings it about: only commands of the target file do. */
  onlyByCommand?: true;
};

export type LinkFault = Breaking & {
  kind: "link-fault";
  link: LinkName;
  /** A name of faults/faults/catalogue.ts. */
  fault: string;
};

/** A process that is killed, stopped, or ended in order, and brought back. */
export type ProcessFault = Breaking & {
  kind: "process-fault";
  link: "limiter" | "keys" | "api";
  fault: ProcessFaultName;
  /** Which one of several, from 0. */
  replica?: number;
};

/** The store behind the limiter answers with errors. */
export type StoreError = Breaking & { kind: "store-error"; link: "limiter"; fault: StoreErrorName };

/** What an operator may do to a service that works: nothing breaks, and nobody may notice more than its size. */
export type ServiceChange = Breaking & {
  kind: "service-change";
  link: "service";
  /**
   * `slowed`: each call takes several times as long. `rolling-deploy`: all replicas are replaced, one after the other.
   * `new-month`: the clock of all parts is moved to just before the next month, which then comes; put right after the stage.
   */
  fault: "slowed" | "rolling-deploy" | "new-month";
};

export type OneFault = LinkFault | ProcessFault | StoreError | ServiceChange;

/** Several at once, put in in this order and taken away in the other. */
type FaultsAtOnce = Breaking & {
  kind: "faults-at-once";
  parts: readonly OneFault[];
  /** Taken away in the order in which they were put in as well. */
  healsInOrder?: true;
};

export type Fault = OneFault | FaultsAtOnce;

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

export type Disturbance = Fault | OperatorChanges | FaultsBySchedule;

export const faultOf = (disturbance: Disturbance | undefined): Fault | null =>
  disturbance === undefined || disturbance.kind === "operator-changes" || disturbance.kind === "fault-schedule"
    ? null
    : disturbance;

export const partsOf = (fault: Fault): readonly OneFault[] => (fault.kind === "faults-at-once" ? fault.parts : [fault]);

export const breaksEdge = (disturbance: Disturbance | undefined): boolean => {
  const fault = faultOf(disturbance);
  return fault !== null && partsOf(fault).some(({ link }) => link === "edge");
};

/** Faults of a seed: which, when and for how long is left to it. */
export const areDrawn = (events: FaultsBySchedule["events"]): events is Extract<typeof events, { drawn: number }> =>
  "drawn" in events;

export const isDrawn = (disturbance: Disturbance | undefined): boolean =>
  disturbance?.kind === "fault-schedule" && areDrawn(disturbance.events);

export const movesClock = (disturbance: Disturbance | undefined): boolean => {
  const fault = faultOf(disturbance);
  return fault !== null && partsOf(fault).some((part) => part.fault === "new-month");
};

/** Whether something is broken by it, as opposed to changed in order: what is broken may cut calls short. */
export const breaks = (disturbance: Disturbance | undefined): boolean => {
  const fault = faultOf(disturbance);
  return fault !== null && partsOf(fault).some(({ kind }) => kind !== "service-change");
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

/** What came of it: everything that puts the stage in doubt, and notes for its reason. */
export type Disturbed = {
  problems: Problem[];
  notes: string[];
  /** Something of it may still be in: nothing further may be broken on this deployment. */
  isLeftBroken?: true;
};

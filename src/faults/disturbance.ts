/** What disturbs a deployment during a stage, independent of the driver, and what the stage has to know about it. */
import type { Deployment } from "../deployments/deployment.ts";
import type { RunContext } from "../deployments/run-context.ts";
import type { Problem } from "../drivers/driver.ts";
import type { FaultLine, MarkLine } from "../history/line.ts";
import type { FaultState } from "../history/states-reached.ts";
import { type Fault, outcomesOf } from "./fault.ts";
import type { ExploredLink, FaultEvent } from "./fault-schedule.ts";
import type { RecentCalls } from "./seen-by-callers.ts";

/** Faults injected in this order once the deployment is steady, and healed in reverse. */
export type Faults = {
  kind: "faults";
  /** In reports, such as `limiter-refused`. */
  name: string;
  faults: readonly [Fault, ...Fault[]];
  /** The load is left alone for so long before. */
  calmMs?: number;
  /** At least; longer at low rates or if records are cached longer. */
  holdMs: number;
  /** Heals in the order of injection. */
  healsInOrder?: true;
};

/** Changes by an operator (`PATCH /deployment`), one after the other; the last restores everything. */
export type OperatorChanges = {
  kind: "operator-changes";
  changes: readonly { patch: Record<string, unknown>; holdMs: number }[];
};

/** Several faults, each at its own time. Load goes on for `restMs` after the last heal. */
export type FaultsBySchedule = {
  kind: "fault-schedule";
  /** Stated, or drawn by the run's seed for so long on these links. */
  events: readonly FaultEvent[] | { drawn: number; forMs: number; links: readonly ExploredLink[] };
  restMs: number;
  /** Recovery deadline after the last heal. */
  recoveryMs: number;
};

export type Disturbance = Faults | OperatorChanges | FaultsBySchedule;

export const areDrawn = (events: FaultsBySchedule["events"]): events is Extract<typeof events, { drawn: number }> =>
  "drawn" in events;

export const linksOf = ({ events }: FaultsBySchedule): readonly ExploredLink[] =>
  areDrawn(events) ? events.links : events.map(({ link }) => link);

type Consequences = {
  /** Whether something is broken, which may cut calls off. An operator's change breaks nothing. */
  breaks: boolean;
  /** Whether the proxy between callers and the deployment is broken. */
  breaksEdge: boolean;
  movesClock: boolean;
  /** Drawn by the seed, so no particular effect is due. */
  isDrawn: boolean;
  /** Prefixes of the outcomes that it may cause. */
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
  /** Peak rate of the concurrent load, in calls per second. */
  ratePerS: number;
  /** Fires on a stop signal and when the load ends by itself. */
  signal: AbortSignal;
  recent: RecentCalls;
  onLine(line: FaultLine | MarkLine): void;
  /** States that the fault has to meet. */
  requiredStates: readonly FaultState[];
};

/** Doubts about the stage, and notes for its reason. */
export type Disturbed = {
  problems: Problem[];
  notes: string[];
  /** A fault may still be in force: nothing more may be broken on this deployment. */
  isLeftBroken?: boolean;
};

export const inconclusive = (reason: string): Problem => ({ verdict: "inconclusive", reason });

/** A watchdog that lost contact may have healed the stage's fault. */
export const lostWatch = ({ remoteWatch }: Deployment): Problem[] => {
  const lost = remoteWatch?.lost() ?? null;
  return lost === null ? [] : [inconclusive(lost)];
};

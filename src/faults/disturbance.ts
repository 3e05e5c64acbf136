/** What disturbs a deployment during a stage, independent of the driver, and what the stage has to know about it. */
import { isError } from "../contract/refusals.ts";
import type { Deployment, RunContext } from "../deployments/deployment.ts";
import type { Problem } from "../drivers/driver.ts";
import type { CallLine, FaultLine, MarkLine } from "../history/line.ts";
import { type OpenCode, openBy } from "../history/reason-codes.ts";
import type { FaultRecord, FaultState, Limits } from "../history/run-document.ts";
import { type BudgetGuard, createErrorWatch, NOTHING_SPENT } from "../workload/budget.ts";
import { type Fault, outcomesOf } from "./fault.ts";
import { AFTER_MS, type ExploredLink, type FaultEvent, RECOVERY_MS } from "./fault-schedule.ts";
import type { RecentCalls } from "./seen-by-callers.ts";

/** Faults injected in this order once the deployment is steady, and healed in reverse. */
export type Faults = {
  kind: "faults";
  /** The name in reports, such as `limiter-refused`. */
  name: string;
  faults: readonly [Fault, ...Fault[]];
  /** How long the load runs undisturbed first, in milliseconds (default 0). */
  calmMs?: number;
  /** The shortest time that the faults stay; `paceOf` lengthens it at low rates and for cached key records. */
  holdMs: number;
  healsInOrder?: true;
};

/** Changes by an operator (`PATCH /deployment`), one after the other; the last restores everything. */
export type OperatorChanges = {
  kind: "operator-changes";
  changes: readonly { patch: Record<string, unknown>; holdMs: number }[];
};

/** Several faults, each at its own time. Load goes on beyond the recovery deadline of the last heal. */
export type FaultsBySchedule = {
  kind: "fault-schedule";
  /** A list, or draw number `drawn` of the run's seed, for `forMs` of load on these links. */
  events: readonly FaultEvent[] | { drawn: number; forMs: number; links: readonly ExploredLink[] };
};

export type Disturbance = Faults | OperatorChanges | FaultsBySchedule;

export const areDrawn = (events: FaultsBySchedule["events"]): events is Extract<typeof events, { drawn: number }> =>
  "drawn" in events;

export const linksOf = ({ events }: FaultsBySchedule): readonly ExploredLink[] =>
  areDrawn(events) ? events.links : events.map(({ link }) => link);

export const consequencesOf = (disturbance: Disturbance | undefined) => {
  const faults = disturbance?.kind === "faults" ? disturbance.faults : [];
  return {
    /** Whether something is broken, which may cut calls off. An operator's change breaks nothing. */
    breaks: faults.some(({ by }) => by !== "operator"),
    breaksEdge: faults.some(({ component }) => component === "edge"),
    movesClock: faults.some(({ fault }) => fault === "new-month"),
    /** Whether the faults are drawn from the seed, so that no particular effect is expected. */
    isDrawn: disturbance?.kind === "fault-schedule" && areDrawn(disturbance.events),
    mayCause: outcomesOf(faults),
  };
};

const STEADY_MS = 10_000;
const ENOUGH_CALLS = 15;
/** How long a fault holds after cached key records have expired, so that calls need the key service. */
const AFTER_CACHE_MS = 2_000;

const within = (least: number, value: number, most: number): number => Math.min(most, Math.max(least, value));

/** Durations of an experiment's parts, long enough for judgeable numbers of calls at the load's rate. */
export const paceOf = ({ faults, holdMs }: Faults, ratePerS: number, limits: Limits = {}) => {
  const enoughMs = (ENOUGH_CALLS * 1000) / ratePerS;
  const isOfKeys = faults.some(({ component }) => component === "keys");
  const cacheMs = isOfKeys ? (limits.revocation_budget_ms ?? 0) : 0;
  return {
    /** How many calls have to show the steady state, and (`backCalls`) the recovery. */
    steadyCalls: Math.round(within(10, ratePerS, 40)),
    backCalls: Math.round(within(5, ratePerS / 2, 20)),
    steadyMs: STEADY_MS + enoughMs,
    holdMs: Math.max(holdMs, cacheMs + Math.max(AFTER_CACHE_MS, enoughMs)),
    recoveryMs: Math.max(RECOVERY_MS, enoughMs),
    /** Load after the recovery deadline, to see that recovery lasts. */
    afterMs: Math.max(AFTER_MS, enoughMs),
  };
};

export const faultFacts = (disturbance: Disturbance | undefined, ratePerS: number, limits?: Limits) => {
  if (disturbance?.kind === "fault-schedule")
    return { faults: linksOf(disturbance).length > 0, recovery_deadline_ms: RECOVERY_MS };
  if (disturbance?.kind !== "faults") return { faults: false };
  const { recoveryMs } = paceOf(disturbance, ratePerS, limits);
  return { faults: consequencesOf(disturbance).breaks, recovery_deadline_ms: recoveryMs };
};

/**
 * Applies `stop_when` in a stage with a fault: refusals that the fault causes do not count as errors from its injection
 * to the recovery deadline. The driver's process does not know these times, so it always tolerates them.
 */
export const watchBesideFault = (
  budget: BudgetGuard,
  recoveryMs: number,
  tolerated: readonly string[] = outcomesOf([]),
) => {
  const watch = createErrorWatch(budget.stated.stopErrorRate);
  const tooMany = new AbortController();
  const windows: { of: string; fromUs: number; untilUs: number }[] = [];
  return {
    /** The guard for the driver; it shares the run's budget. */
    budget: {
      ...budget,
      left: () => ({ ...budget.left(), tolerated }),
      get stopped() {
        return budget.stopped;
      },
    } satisfies BudgetGuard,
    call: (line: Pick<CallLine, "sent_us" | "done_us" | "outcome" | "ended" | "events" | "aborted">): void => {
      const { sent_us: sentUs, done_us: doneUs, outcome } = line;
      const isDuring = windows.some(({ fromUs, untilUs }) => doneUs >= fromUs && sentUs <= untilUs);
      const stopped = watch(doneUs, isError(outcome, line, isDuring ? tolerated : []));
      if (stopped === null || tooMany.signal.aborted) return;
      budget.absorb(NOTHING_SPENT, stopped);
      tooMany.abort();
    },
    fault: ({ phase, at_us: atUs, link, fault }: Pick<FaultLine, "phase" | "at_us" | "link" | "fault">): void => {
      const of = `${link} ${fault}`;
      if (phase === "injecting") windows.push({ of, fromUs: atUs, untilUs: Number.POSITIVE_INFINITY });
      const window = phase === "healed" ? windows.findLast((one) => one.of === of) : undefined;
      if (window !== undefined) window.untilUs = atUs + recoveryMs * 1000;
    },
    /** Fires when there were too many errors; `budget.stopped` is set then. */
    signal: tooMany.signal,
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
  requiredStates: readonly FaultState[];
};

export type Disturbed = {
  problems: Problem[];
  notes: string[];
  /** A fault may still be in force: nothing more may be broken on this deployment. */
  isLeftBroken?: boolean;
};

export const inconclusive = (code: OpenCode, reason: string): Problem => ({ ...openBy(code), reason });

/** A watchdog that lost contact may have healed the stage's fault. */
export const lostWatch = ({ remoteWatch }: Deployment) =>
  [remoteWatch?.lost() ?? []].flat().map((why) => inconclusive("fault-without-effect", why));

export const faultRecords = (lines: readonly FaultLine[]): FaultRecord[] => {
  const records: FaultRecord[] = [];
  for (const { experiment, link, fault, stream, phase, at_us, took_effect } of lines) {
    const at_ms = at_us / 1000;
    if (phase === "injecting")
      records.push({ experiment, link, fault, stream, started_ms: at_ms, ended_ms: at_ms, took_effect: false });
    const last = records.findLast((record) => record.link === link && record.fault === fault);
    if (last === undefined) continue;
    if (phase === "injected") last.took_effect = took_effect === true;
    last.ended_ms = at_ms;
  }
  return records;
};

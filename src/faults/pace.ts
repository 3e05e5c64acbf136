/** Durations of an experiment's parts, long enough for judgeable numbers of calls at the load's rate. */
import type { Limits, StageFacts } from "../history/stage-facts.ts";
import { consequencesOf, type Disturbance, type Faults, linksOf } from "./disturbance.ts";

export type Pace = {
  /** Calls that show the deployment steady, and recovered. */
  steadyCalls: number;
  backCalls: number;
  steadyMs: number;
  holdMs: number;
  recoveryMs: number;
  /** Load after the recovery deadline, to see that recovery lasts. */
  afterMs: number;
};

const STEADY_MS = 10_000;
const RECOVERY_MS = 3_000;
const AFTER_MS = 1_500;
/** Calls wanted in each part. */
const ENOUGH_CALLS = 15;
/** After a cached record has expired, so that the key service is needed. */
const AFTER_CACHE_MS = 2_000;

const within = (least: number, value: number, most: number): number => Math.min(most, Math.max(least, value));

export const paceOf = ({ faults, holdMs }: Faults, ratePerS: number, limits: Limits = {}): Pace => {
  const enoughMs = (ENOUGH_CALLS * 1000) / ratePerS;
  const isOfKeys = faults.some(({ component }) => component === "keys");
  const cacheMs = isOfKeys ? (limits.revocation_budget_ms ?? 0) : 0;
  return {
    steadyCalls: Math.round(within(10, ratePerS, 40)),
    backCalls: Math.round(within(5, ratePerS / 2, 20)),
    steadyMs: STEADY_MS + enoughMs,
    holdMs: Math.max(holdMs, cacheMs + Math.max(AFTER_CACHE_MS, enoughMs)),
    recoveryMs: Math.max(RECOVERY_MS, enoughMs),
    afterMs: Math.max(AFTER_MS, enoughMs),
  };
};

/** Whether something was broken, and the recovery deadline. */
export const faultFacts = (
  disturbance: Disturbance | undefined,
  ratePerS: number,
  limits: StageFacts["limits"] = {},
): Pick<StageFacts, "faults" | "recovery_deadline_ms"> => {
  switch (disturbance?.kind) {
    case "fault-schedule":
      return { faults: linksOf(disturbance).length > 0, recovery_deadline_ms: disturbance.recoveryMs };
    case "faults": {
      const { recoveryMs } = paceOf(disturbance, ratePerS, limits);
      return { faults: consequencesOf(disturbance).breaks, recovery_deadline_ms: recoveryMs };
    }
    default:
      return { faults: false };
  }
};

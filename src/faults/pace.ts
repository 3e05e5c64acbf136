/** How long the parts of an experiment last: long enough that, at the rate of its load, there is something to judge by. */
import type { Limits, StageFacts } from "../history/stage-facts.ts";
import { consequencesOf, type Disturbance, type Faults, linksOf } from "./disturbance.ts";

export type Pace = {
  /** How many calls show that a deployment is steady, and how many that it is back. */
  steadyCalls: number;
  backCalls: number;
  steadyMs: number;
  holdMs: number;
  recoveryMs: number;
  /** Load goes on this much longer than the deadline of recovery, so that "stays recovered" can be seen. */
  afterMs: number;
};

const STEADY_MS = 10_000;
const RECOVERY_MS = 3_000;
const AFTER_MS = 1_500;
/** Calls that judges want to see in each part. */
const ENOUGH_CALLS = 15;
/** A record may serve on for the revocation budget; only after it the key service is missed. */
const AFTER_CACHE_MS = 2_000;

const within = (least: number, value: number, most: number): number => Math.min(most, Math.max(least, value));

/** `ratePerS`: calls a second of the load beside it. */
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

/** What judges have to know: whether something was broken, and by when the deployment has to be well after each heal. */
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

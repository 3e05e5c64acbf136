/** A suite: the stages of a run as data, for the embedded deployment and for anybody's. */

import type { LoadStage, StagePlan } from "../../stages/stage-plan.ts";
import type { Target } from "../../target/target.ts";

export type SuiteFor = {
  target: Target;
  embedded: boolean;
  /** Where the embedded deployment keeps its counts (default sqlite). */
  limiter?: "sqlite" | "redis";
};

export type Suite = {
  readonly name: string;
  /** One sentence for help texts. */
  readonly purpose: string;
  stages(given: SuiteFor): StagePlan[];
};

const SHORT_SHARE = 0.2;
/** Shorter than this, most stages reach nothing. */
const SHORTEST_S = 4;

/** A fifth of the time; where a stage's length follows from what it has to reach, it stays. */
export const shortened = (plan: StagePlan): StagePlan => {
  if (plan.kind === "verify") return plan;
  const { disturbance, durationS, growth: _, ...rest } = plan;
  if (disturbance?.kind === "fault-schedule" && "drawn" in disturbance.events) {
    // Too short to show whether anything grows.
    const forMs = disturbance.events.forMs * SHORT_SHARE;
    return { ...rest, disturbance: { ...disturbance, events: { ...disturbance.events, forMs } } };
  }
  if (disturbance !== undefined || durationS === undefined) return plan;
  return { ...plan, durationS: Math.min(durationS, Math.max(SHORTEST_S, durationS * SHORT_SHARE)) };
};

/** The parts that most load stages have in common. */
export const loadStage = (parts: Pick<LoadStage, "name" | "judges"> & Partial<LoadStage>): LoadStage => ({
  kind: "load",
  driver: "open-loop",
  story: parts.name,
  ...parts,
});

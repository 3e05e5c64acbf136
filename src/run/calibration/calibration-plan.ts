/** Which drivers a run plays with and how fast, so that they are calibrated for that and nothing else. */

import type { Deployment } from "../../deployments/deployment.ts";
import { consequencesOf } from "../../faults/disturbance.ts";
import { INVARIANTS } from "../../invariants/catalogue.ts";
import type { LoadStage, StagePlan } from "../../stages/stage-plan.ts";
import { plannedFor, stageMissing } from "../../stages/stages-for.ts";
import { profilePeakPerS } from "../../workload/load-profiles.ts";

/** Not autocannon: nothing about time is claimed of what it plays. */
export type DriverName = Exclude<LoadStage["driver"], "autocannon">;

/** The highest rate of each driver that is used, in calls per second. */
export type CalibrationPlan = ReadonlyMap<DriverName, number>;

/** Where a ramp has yet to find the rate and none is permitted. */
const RATE_UNKNOWN_PER_S = 200;

const TIMED = new Set(INVARIANTS.flatMap(({ id, time }) => (time === undefined ? [] : [id])));

/** With a fault in, only judges and objectives about time make a stage about time. */
const isAboutTime = ({ disturbance, objectives, judges }: LoadStage): boolean =>
  !consequencesOf(disturbance).breaks || objectives === true || judges.some((id) => TIMED.has(id));

export type Ceiling = {
  mode: "a line each" | "folded";
  perS: number;
  forS: number;
};

const STEADY_PER_S = { least: 200, most: 500 } as const;

export const ratesOf = (peakPerS: number): { ratePerS: number; ceilingPerS: number } => {
  const ratePerS = Math.min(STEADY_PER_S.most, Math.max(STEADY_PER_S.least, peakPerS));
  return { ratePerS, ceilingPerS: Math.max(3 * peakPerS, ratePerS) };
};

const isOfOpenLoop = (plan: StagePlan): plan is LoadStage => plan.kind === "load" && plan.driver === "open-loop";

/** The modes of the open-loop driver that the run uses. Where a stage folds, three times the rate is tried in that mode as well. */
export const modesOf = (plan: CalibrationPlan, plans: readonly StagePlan[]) => {
  const stages = plans.filter(isOfOpenLoop);
  const folding = stages.filter(({ fold }) => fold === true);
  const peakPerS = folding.length === 0 ? undefined : plan.get("open-loop");
  const tried = (ofPeakPerS: number): Ceiling => ({ mode: "folded", perS: ratesOf(ofPeakPerS).ceilingPerS, forS: 0.5 });
  return {
    ceilings: peakPerS === undefined ? [] : [tried(peakPerS)],
    foldsAll: stages.length > 0 && folding.length === stages.length,
    precise: stages.some(({ precise }) => precise === true),
  };
};

export const calibrationPlanOf = (deployment: Deployment, plans: readonly StagePlan[]): CalibrationPlan => {
  const peaks = new Map<DriverName, number>();
  for (const plan of plans) {
    if (plan.kind !== "load" || plan.driver === "autocannon") continue;
    if (!isAboutTime(plan) || stageMissing(plan, deployment).length > 0) continue;
    const planned = plannedFor(plan, deployment);
    const peak =
      planned === null
        ? (deployment.target.permits?.load_max_rps ?? RATE_UNKNOWN_PER_S)
        : profilePeakPerS(planned.profile);
    peaks.set(plan.driver, Math.max(peaks.get(plan.driver) ?? 0, peak / (plan.segments ?? 1)));
  }
  return peaks;
};

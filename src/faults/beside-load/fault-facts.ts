/** What a judge has to know of a stage's faults, whoever puts them in. */
import type { StageFacts } from "../../history/stage-facts.ts";
import { breaks, type Disturbance, faultOf } from "./disturbance.ts";
import { linksOf } from "./fault-schedule.ts";
import { paceOf } from "./pace.ts";

/** Whether something was broken, and by when the deployment has to be well after each heal. */
export const faultFacts = (
  disturbance: Disturbance | undefined,
  ratePerS: number,
  limits: StageFacts["limits"] = {},
): Pick<StageFacts, "faults" | "recovery_deadline_ms"> => {
  if (disturbance?.kind === "fault-schedule") {
    return { faults: linksOf(disturbance).length > 0, recovery_deadline_ms: disturbance.recoveryMs };
  }
  const fault = faultOf(disturbance);
  if (fault === null) return { faults: false };
  return { faults: breaks(disturbance), recovery_deadline_ms: paceOf(fault, ratePerS, limits).recoveryMs };
};

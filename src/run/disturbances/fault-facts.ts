/** What a judge has to know of a stage's faults, whoever puts them in. */
import type { StageFacts } from "../../history/stage-facts.ts";
import type { Disturbance } from "./disturbance.ts";
import { linksOf } from "./fault-schedule.ts";
import { paceOf } from "./pace.ts";

/** Whether links were broken, and by when the deployment has to be well after each heal. */
export const faultFacts = (
  disturbance: Disturbance | undefined,
  ratePerS: number,
  limits: StageFacts["limits"] = {},
): Pick<StageFacts, "faults" | "recovery_deadline_ms"> => {
  switch (disturbance?.kind) {
    case "link-fault":
      return { faults: true, recovery_deadline_ms: paceOf(disturbance, ratePerS, limits).recoveryMs };
    case "fault-schedule":
      return { faults: linksOf(disturbance).length > 0, recovery_deadline_ms: disturbance.recoveryMs };
    default:
      return { faults: false };
  }
};

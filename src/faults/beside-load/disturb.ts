/** One way to every disturbance: carrying it out beside a load. */
import type { Disturbance, DisturbanceContext, Disturbed } from "./disturbance.ts";
import { injectBesideLoad } from "./fault-beside-load.ts";
import { breakBySchedule } from "./fault-schedule.ts";
import { changeDeployment } from "./operator-changes.ts";

export const disturb = (disturbance: Disturbance, beside: DisturbanceContext): Promise<Disturbed> => {
  switch (disturbance.kind) {
    case "operator-changes":
      return changeDeployment(disturbance, beside);
    case "fault-schedule":
      return breakBySchedule(disturbance, beside);
    default:
      return injectBesideLoad(disturbance, beside);
  }
};

/** One way to every disturbance: what it lacks on a deployment, and carrying it out beside a load. */
import type { Deployment } from "../deployments/deployment.ts";
import { faultKey } from "./break-link.ts";
import type { Disturbance, DisturbanceContext, Disturbed } from "./disturbance.ts";
import { breakBySchedule, linksOf } from "./fault-schedule.ts";
import { breakLink } from "./link-fault.ts";
import { changeDeployment } from "./operator-changes.ts";

/** What the deployment lacks for it, by name; empty when it can be carried out. */
export const disturbanceMissing = (
  disturbance: Disturbance | undefined,
  { target, faults, faultsMissing }: Pick<Deployment, "target" | "faults" | "faultsMissing">,
): string[] => {
  switch (disturbance?.kind) {
    case undefined:
      return [];
    case "operator-changes":
      return (target.control?.api ?? []).length > 0 ? [] : ["`control.api` (to change the deployment as its operator)"];
    case "fault-schedule":
      if (faults === null) return [`a fault proxy: ${faultsMissing}`];
      return linksOf(disturbance).flatMap((link) =>
        faults.links[link] === undefined ? [`\`toxiproxy.proxies.${link}\``] : [],
      );
    case "link-fault":
      if (target.permits?.chaos === true && target.faults?.[faultKey(disturbance)] !== undefined) return [];
      if (faults === null) return [`a fault proxy: ${faultsMissing}`];
      return faults.links[disturbance.link] === undefined ? [`\`toxiproxy.proxies.${disturbance.link}\``] : [];
  }
};

export const disturb = (disturbance: Disturbance, beside: DisturbanceContext): Promise<Disturbed> => {
  switch (disturbance.kind) {
    case "link-fault":
      return breakLink(disturbance, beside);
    case "operator-changes":
      return changeDeployment(disturbance, beside);
    case "fault-schedule":
      return breakBySchedule(disturbance, beside);
  }
};

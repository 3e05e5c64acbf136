import type { FaultLine } from "../history/line.ts";
import type { FaultRecord } from "../history/run-document.ts";
import { breakBySchedule } from "./by-schedule.ts";
import type { Disturbance, DisturbanceContext, Disturbed } from "./disturbance.ts";
import { injectBesideLoad } from "./fault-beside-load.ts";
import { changeDeployment } from "./operator-changes.ts";

export const disturb = (disturbance: Disturbance, beside: DisturbanceContext): Promise<Disturbed> => {
  switch (disturbance.kind) {
    case "faults":
      return injectBesideLoad(disturbance, beside);
    case "fault-schedule":
      return breakBySchedule(disturbance, beside);
    case "operator-changes":
      return changeDeployment(disturbance, beside);
  }
};

/** The faults of a stage as the run document reports them. */
export const faultRecords = (lines: readonly FaultLine[]): FaultRecord[] => {
  const records: FaultRecord[] = [];
  for (const { experiment, link, fault, stream, phase, at_us, took_effect } of lines) {
    const at_ms = at_us / 1000;
    if (phase === "injecting") {
      records.push({ experiment, link, fault, stream, started_ms: at_ms, ended_ms: at_ms, took_effect: false });
    }
    const last = records.findLast((record) => record.link === link && record.fault === fault);
    if (last === undefined) continue;
    if (phase === "injected") last.took_effect = took_effect === true;
    last.ended_ms = at_ms;
  }
  return records;
};

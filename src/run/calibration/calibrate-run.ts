/** The calibration as the first thing that a run does: its processes are in the run's hands, its checks in the run's document. */

import type { RunContext } from "../../deployments/run-context.ts";
import { failedChecks } from "../../history/calibration-checks.ts";
import { calibrationDoubts } from "../../history/time-doubts.ts";
import { type CalibrateOptions, calibrate } from "./calibrate.ts";
import type { CalibrationPlan } from "./calibration-plan.ts";

/** Of the drivers in the plan; nothing happens where it has none. */
export const calibrateRun = async (
  context: RunContext,
  plan: CalibrationPlan,
  modes: Pick<CalibrateOptions, "ceilings" | "precise" | "foldsAll"> = {},
): Promise<void> => {
  if (plan.size === 0 || context.signal.aborted) return;
  const { supervisor, events, signal, seed } = context;
  const forgets: (() => void)[] = [];
  events.step(`calibration: ${[...plan.keys()].join(" and ")}, against a server of known delays`);
  try {
    const checks = await calibrate({
      plan,
      ...modes,
      seed,
      signal,
      k6Path: () => context.tool("k6"),
      onSpawn: (name, { pid }) => {
        if (pid !== undefined) forgets.push(supervisor.adopt(name, pid));
      },
      onFolder: (path) => void forgets.push(supervisor.ownFolder("calibration: what k6 is handed", path)),
    });
    context.addCalibration(checks);
    const held = checks.filter(({ verdict }) => verdict === "pass").length;
    events.result(`  ${held} of ${checks.length} checks hold`);
    for (const driver of plan.keys())
      for (const doubt of calibrationDoubts(failedChecks(checks, driver), 0)) events.result(`  ${doubt}`);
  } finally {
    for (const forget of forgets) forget();
  }
};

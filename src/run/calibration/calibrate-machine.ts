/** The calibration without a run, for `doctor --calibrate`: both drivers at a rate at which tools are commonly compared. */
import type { Calibration } from "../../history/run-document.ts";
import { seeTool } from "../../tools/find-tool.ts";
import { type CalibrateOptions, calibrate } from "./calibrate.ts";
import type { CalibrationPlan, Ceiling } from "./calibration-plan.ts";

/** field-notes/measured.md section 6 compares tools at this rate. */
const RATE_PER_S = 500;
/** What the open-loop driver is built to hold from one process: with a line for each call, and with folded ones. */
const CEILINGS: readonly Ceiling[] = [
  { mode: "a line each", perS: 6_000, forS: 3 },
  { mode: "folded", perS: 14_000, forS: 3 },
];

type MachineCalibration = {
  checks: Calibration[];
  /** What the open-loop driver holds: a machine with less can still measure what it holds. */
  ceilings: Calibration[];
  lacking: string[];
};

const isCeiling = ({ name }: Calibration): boolean => CEILINGS.some(({ mode }) => name.endsWith(`${mode}, rate held`));

/** Builds nothing: without k6 it is left out and said so. */
export const calibrateMachine = async (
  how: Pick<CalibrateOptions, "seed" | "precise" | "signal">,
): Promise<MachineCalibration> => {
  const { tool, problem } = await seeTool("k6", {});
  const plan: CalibrationPlan = new Map([
    ["open-loop", RATE_PER_S],
    ...(tool === null ? [] : [["k6", RATE_PER_S] as const]),
  ]);
  const all = await calibrate({
    plan,
    ceilings: CEILINGS,
    ...how,
    k6Path: async () => (tool === null ? "k6" : tool.path),
  });
  const why = problem ?? "it is not built yet: npx floodgate dev tools";
  const ceilings = all.filter(isCeiling);
  const checks = all.filter((check) => !isCeiling(check));
  return { checks, ceilings, lacking: tool === null ? [`not calibrated: ${why}`] : [] };
};

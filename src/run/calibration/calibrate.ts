/** Calibrates each driver before a run says anything about time with it. */
import { join } from "node:path";
import type { RunContext } from "../../deployments/run-context.ts";
import type { Driver } from "../../drivers/driver.ts";
import { driveK6 } from "../../drivers/k6/k6.ts";
import { driveOpenLoop } from "../../drivers/open-loop/driver.ts";
import { failedChecks } from "../../history/calibration-checks.ts";
import type { Calibration } from "../../history/run-document.ts";
import { calibrationDoubts } from "../../history/time-doubts.ts";
import { type Hands, inHand, NO_HANDS } from "../../stages/play.ts";
import { REPOSITORY } from "../../supervision/repository.ts";
import { seeTool } from "../../tools/find-tool.ts";
import { calibrateDriver, calibrationVus, heldRate, STORY } from "./calibrate-driver.ts";
import type { CalibrationPlan, Ceiling, DriverName } from "./calibration-plan.ts";
import { startCalibrationStub } from "./stub.ts";

type CalibrateOptions = {
  plan: CalibrationPlan;
  seed: number;
  /** Rates that the open-loop driver is to hold besides, each in its mode. */
  ceilings?: readonly Ceiling[];
  /** The open-loop driver folds every call of the run, so `ceilings` tries three times the rate. */
  foldsAll?: boolean;
  precise?: boolean;
  /** Path of k6; asked only where the plan has it. Throws a sentence where it cannot be had. */
  k6Path(): Promise<string>;
  hands?: Hands;
  signal: AbortSignal;
};

/** A calibration that could not be made counts as one that failed. */
const notMade = (driver: DriverName, reason: string): Calibration => ({
  name: `${driver}: could be calibrated (${reason})`,
  driver,
  truth: 1,
  measured: 0,
  unit: "1",
  verdict: "inconclusive",
});

const driverOf = async (name: DriverName, peakPerS: number, k6Path: () => Promise<string>): Promise<Driver> => {
  if (name === "open-loop") return driveOpenLoop;
  const scenario = join(REPOSITORY, "scenarios", `${STORY}.ts`);
  return driveK6({ k6Path: await k6Path(), scenario, vus: calibrationVus(peakPerS) });
};

export const calibrate = async (options: CalibrateOptions): Promise<Calibration[]> => {
  const { plan, seed, signal, ceilings = [], foldsAll, precise, k6Path, hands = NO_HANDS } = options;
  if (plan.size === 0) return [];
  const found: Calibration[] = [];
  const stub = await startCalibrationStub(hands).catch((error: Error) => error);
  if (stub instanceof Error) return [...plan.keys()].map((name) => notMade(name, stub.message));
  try {
    for (const [name, peakPerS] of plan) {
      if (signal.aborted) break;
      const isOpenLoop = name === "open-loop";
      try {
        const driver = inHand(hands, `the ${name} driver of the calibration`, await driverOf(name, peakPerS, k6Path));
        const of = { name, driver, seed, signal, precise: isOpenLoop && precise };
        const checks = await calibrateDriver(stub, { ...of, peakPerS, foldsAll: isOpenLoop && foldsAll });
        for (const ceiling of isOpenLoop ? ceilings : []) checks.push(await heldRate(stub, { ...of, ...ceiling }));
        if (!signal.aborted) found.push(...checks);
      } catch (error) {
        found.push(notMade(name, (error as Error).message));
      }
    }
  } finally {
    await stub.end();
  }
  return found;
};

/** The first thing that a run does, with the drivers of the plan; nothing where it has none. */
export const calibrateRun = async (
  context: RunContext,
  plan: CalibrationPlan,
  modes: Pick<CalibrateOptions, "ceilings" | "precise" | "foldsAll"> = {},
): Promise<void> => {
  if (plan.size === 0 || context.signal.aborted) return;
  const { supervisor: hands, events, signal, seed } = context;
  events.step(`calibration: ${[...plan.keys()].join(" and ")}, against a server of known delays`);
  const checks = await calibrate({ plan, ...modes, seed, signal, k6Path: () => context.tool("k6"), hands });
  context.addCalibration(checks);
  const held = checks.filter(({ verdict }) => verdict === "pass").length;
  events.result(`  ${held} of ${checks.length} checks hold`);
  for (const driver of plan.keys())
    for (const doubt of calibrationDoubts(failedChecks(checks, driver), 0)) events.result(`  ${doubt}`);
};

/** The rate at which tools are commonly compared. */
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

const isCeiling = ({ about }: Calibration): boolean => about === "ceiling";

/** Without a run, for `doctor --calibrate`. Builds nothing: without k6 it is left out and said so. */
export const calibrateMachine = async (
  how: Pick<CalibrateOptions, "seed" | "precise" | "signal">,
): Promise<MachineCalibration> => {
  const { tool, problem } = await seeTool("k6", {});
  const plan: CalibrationPlan = new Map([
    ["open-loop", RATE_PER_S],
    ...(tool === null ? [] : [["k6", RATE_PER_S] as const]),
  ]);
  const all = await calibrate({ plan, ceilings: CEILINGS, ...how, k6Path: async () => tool?.path ?? "k6" });
  const why = problem ?? "it is not built yet: npx floodgate dev tools";
  return {
    checks: all.filter((check) => !isCeiling(check)),
    ceilings: all.filter(isCeiling),
    lacking: tool === null ? [`not calibrated: ${why}`] : [],
  };
};

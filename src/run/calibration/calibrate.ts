/**
 * Calibrates each driver that is about to be used, one after the other: what one of them measures wrongly, or cannot hold on
 * this machine, is known before the run says anything about time.
 */

import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import type { Driver } from "../../drivers/driver.ts";
import { driveK6 } from "../../drivers/k6/driver.ts";
import { driveOpenLoop } from "../../drivers/open-loop/driver.ts";
import type { Calibration } from "../../history/run-document.ts";
import { REPOSITORY } from "../../supervision/repository.ts";
import { calibrateDriver, calibrationVus, STORY } from "./calibrate-driver.ts";
import type { CalibrationPlan, Ceiling, DriverName } from "./calibration-plan.ts";
import { heldRate } from "./held-rate.ts";
import { startCalibrationStub } from "./start-stub.ts";

export type CalibrateOptions = {
  plan: CalibrationPlan;
  seed: number;
  /** Rates that the open-loop driver is to hold besides, each in its mode. */
  ceilings?: readonly Ceiling[];
  /** The open-loop driver folds whatever it plays: three times the rate are asked of that mode alone, in `ceilings`. */
  foldsAll?: boolean;
  /** The open-loop driver as `load --precise` uses it. */
  precise?: boolean;
  /** Path of k6; asked only where the plan has it. Throws a sentence where it cannot be had. */
  k6Path(): Promise<string>;
  /** Of every process and of every folder that holds secrets, for supervision. */
  onSpawn?(name: string, child: ChildProcess): void;
  onFolder?(path: string): void;
  signal: AbortSignal;
};

/** A check that could not be made at all: what the driver says about time is as unknown as if it had failed. */
const notMade = (driver: DriverName, reason: string): Calibration => ({
  name: `${driver}: could be calibrated (${reason})`,
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

export const calibrate = async ({ plan, seed, signal, ...options }: CalibrateOptions): Promise<Calibration[]> => {
  if (plan.size === 0) return [];
  const spawned = (name: string) => (child: ChildProcess) => options.onSpawn?.(name, child);
  const found: Calibration[] = [];
  const stub = await startCalibrationStub(spawned("the stub of the calibration")).catch((error: Error) => error);
  if (stub instanceof Error) return [...plan.keys()].map((name) => notMade(name, stub.message));
  try {
    for (const [name, peakPerS] of plan) {
      if (signal.aborted) break;
      try {
        const driver = await driverOf(name, peakPerS, options.k6Path);
        const onSpawn = spawned(`the ${name} driver of the calibration`);
        const { onFolder } = options;
        const parts = {
          name,
          driver,
          peakPerS,
          seed,
          signal,
          onSpawn,
          precise: options.precise === true && name === "open-loop",
          foldsAll: options.foldsAll === true && name === "open-loop",
          ...(onFolder === undefined ? {} : { onFolder }),
        };
        const checks = await calibrateDriver(stub, parts);
        const held = [];
        for (const ceiling of name === "open-loop" ? (options.ceilings ?? []) : []) {
          held.push(await heldRate(stub, { ...parts, ...ceiling }));
        }
        // One that was cut short shows nothing.
        if (!signal.aborted) found.push(...checks, ...held);
      } catch (error) {
        found.push(notMade(name, (error as Error).message));
      }
    }
  } finally {
    await stub.end();
  }
  return found;
};

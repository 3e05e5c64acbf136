/** Puts together what is known of generator and host in a stage, for those who judge times by it (history/time-doubts.ts). */
import { cpus } from "node:os";
import type { Driven } from "../drivers/driver.ts";
import type { Calibration, Measurement } from "../history/run-document.ts";
import type { StageHost } from "../history/stage-host.ts";
import type { Histogram } from "../history/statistics/histogram.ts";
import type { MachineUse } from "./machine-use.ts";

const SHARES = [0.5, 0.75, 0.9, 0.99, 0.999, 1] as const;

/** `lag`: by how much calls left later than they should have, in microseconds. */
export const stageHost = (
  lag: Histogram,
  parts: { driven: Driven; used: MachineUse; measurements: readonly Measurement[]; calibration: Calibration[] },
): StageHost => {
  const { driven, used, measurements, calibration } = parts;
  return {
    host: driven.host,
    // All of the machine, as /proc/stat counts them, also where we may use a few of them alone.
    cores: cpus().length,
    ...used,
    calls: lag.n,
    lag_ms: lag.n === 0 ? [] : SHARES.map((share) => [share, (lag.quantile(share) as number) / 1000]),
    rate_error: measurements.find(({ name }) => name === "rate_error")?.value ?? null,
    generator: driven.problems.flatMap(({ about, reason }) => (about === "time" ? [reason] : [])),
    calibration,
  };
};

/**
 * Calibrates one driver: it plays one schedule against the stub in three phases, and its lines are compared with the
 * stub's stamps (history/calibration-checks.ts). Steady: known delays and events. Stalled: the stub stands still once.
 * Null: it answers at once, at three times the run's rate.
 */
import { wallUs } from "../../client/clock.ts";
import type { Drive, DriveJob, Driven } from "../../drivers/driver.ts";
import { CEILING_SHARE, calibrationChecks } from "../../history/calibration-checks.ts";
import type { CallLine } from "../../history/line.ts";
import type { Calibration } from "../../history/run-document.ts";
import { createSecrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import { arrivalTimesUs } from "../../workload/arrivals.ts";
import { guardBudget } from "../../workload/budget.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { constant, type Profile } from "../../workload/load-profiles.ts";
import { type Ceiling, type DriverName, ratesOf } from "./calibration-plan.ts";
import type { CalibrationStub } from "./stub.ts";

/** Reads, calls that work and streams, all without a session: every call is one of the schedule. */
export const STORY = "steady-mix";
/** First calls open connections and run cold; they do not count. */
const WARM_UP_S = 1;
const STEADY_S = 2.2;
/** From the beginning of the stall until its effects are over. */
const STALLED_S = 1;
const STALL_S = 0.2;
const STALL_AFTER_S = 0.2;
const NULL_S = 0.5;
const TENANTS = 12;
const DRAIN_MS = 2_000;

const targetAt = (url: string): Target => ({
  schema: "floodgate/target@1",
  name: "calibration",
  base_url: url,
  tenants: Array.from({ length: TENANTS }, (_, k) => ({
    org: `org_calibration_${k}`,
    server: { key: `svc_sk_live_calibration${k}` },
  })) as NonNullable<Target["tenants"]>,
});

/** A stall holds every call that comes meanwhile; k6 needs a VU for each of them. */
export const calibrationVus = (peakPerS: number): number => {
  const { ratePerS, ceilingPerS } = ratesOf(peakPerS);
  return Math.ceil(1.5 * (ratePerS * (STALL_S + 0.1) + ceilingPerS * 0.03)) + 20;
};

export type CalibratedDriver = {
  name: DriverName;
  driver: (drive: Drive) => Promise<Driven>;
  seed: number;
  precise?: boolean;
  signal: AbortSignal;
};

const playOn = (
  url: string,
  { driver, seed, precise, signal }: CalibratedDriver,
  played: Pick<DriveJob, "stage" | "story" | "profile" | "epochUs"> & Pick<Drive, "onLine" | "onFold">,
) => {
  const { onLine, onFold, stage, ...what } = played;
  const target = targetAt(url);
  const job: DriveJob = {
    ...{ ...what, stage, idPrefix: `${stage}.c`, seed, arrivals: "poisson", target, view: viewOf(target) },
    drainMs: DRAIN_MS,
    precise: precise === true ? true : undefined,
  };
  return driver({ job, secrets: createSecrets("."), budget: guardBudget({}), onLine, onFold, signal });
};

const phasesOf = (schedule: readonly number[]) => ({
  firstUs: schedule[0] ?? 0,
  stallFromUs: (STEADY_S + STALL_AFTER_S) * 1e6,
  stallUs: STALL_S * 1e6,
  nullFromUs: (STEADY_S + STALLED_S) * 1e6,
});

type DriverCalibration = CalibratedDriver & {
  /** The highest rate that the run plays with it, calls per second. */
  peakPerS: number;
  /** It folds admitted calls, so the ceiling is tried with folds alone. */
  foldsAll?: boolean;
};

export const calibrateDriver = async (stub: CalibrationStub, of: DriverCalibration): Promise<Calibration[]> => {
  const { ratePerS, ceilingPerS: triplePerS } = ratesOf(of.peakPerS);
  const ceilingPerS = of.foldsAll === true ? ratePerS : triplePerS;
  const profile: Profile = {
    name: "calibration",
    pieces: [
      { from: ratePerS, to: ratePerS, durationS: STEADY_S + STALLED_S },
      { from: ceilingPerS, to: ceilingPerS, durationS: NULL_S },
    ],
  };
  const schedule = arrivalTimesUs(profile, "poisson", of.seed);
  const lines: CallLine[] = [];
  await stub.begin(phasesOf(schedule));
  const epochUs = wallUs();
  const onLine = (line: CallLine): void => void lines.push(line);
  const { problems } = await playOn(stub.url, of, { stage: "calibration", story: STORY, profile, epochUs, onLine });
  const { stamps, stoodStillUs } = await stub.report();
  const failed = problems.find(({ verdict }) => verdict === "fail");
  if (lines.length === 0) throw new Error((failed ?? problems[0])?.reason ?? "the driver made no calls");
  return calibrationChecks({
    ...{ driver: of.name, schedule, arrivals: "poisson", ratePerS, ceilingPerS, lines, stoodStillUs },
    warmUs: WARM_UP_S * 1e6,
    steadyUs: STEADY_S * 1e6,
    stalledUs: (STEADY_S + STALLED_S) * 1e6,
    stamps: stamps.map((stamp) => ({
      ...stamp,
      received_us: stamp.received_us - epochUs,
      answered_us: stamp.answered_us - epochUs,
      last_us: stamp.last_us - epochUs,
    })),
  });
};

/**
 * Measures the rate that a driver holds in one mode at a server that answers at once and counts; late and missing calls
 * lower it.
 */
export const heldRate = async (
  { nullUrl, look }: Pick<CalibrationStub, "nullUrl" | "look">,
  { mode, perS, forS, ...of }: CalibratedDriver & Ceiling,
): Promise<Calibration> => {
  const profile = constant(perS, forS);
  const schedule = arrivalTimesUs(profile, "poisson", of.seed);
  const epochUs = wallUs();
  let written = 0;
  const count = (n: number): void => {
    written += n;
  };
  const onLine = (): void => count(1);
  const onFold: Drive["onFold"] = mode === "folded" ? ({ offered }) => count(offered) : undefined;
  await look();
  const what = { stage: "ceiling", story: "catalog-reads", profile, epochUs, onLine, onFold };
  const { startUs } = await playOn(nullUrl, of, what);
  const { calls, lastUs } = await look();
  const lastDueUs = schedule.at(-1) ?? 0;
  const tookUs = Math.max(lastDueUs, lastUs - epochUs - (startUs ?? 0));
  // What came and was not written down was not held either.
  const share = schedule.length === 0 ? 0 : Math.min(calls, written) / schedule.length;
  const measured = (perS * share * lastDueUs) / Math.max(1, tookUs);
  return {
    name: `${of.name}: null server, ${mode}, rate held`,
    ...{ driver: of.name, about: "ceiling" },
    truth: perS,
    measured,
    unit: "1/s",
    verdict: measured >= CEILING_SHARE * perS ? "pass" : "fail",
  };
};

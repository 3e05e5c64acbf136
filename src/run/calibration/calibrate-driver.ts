/**
 * One driver against the stub: the product's own driver plays one schedule in three phases, at the same story, and what it
 * wrote is set beside what the stub stamped (history/calibration-checks.ts). Steady: known delays, events, random arrivals.
 * Stalled: the stub stands still once. Null: it answers everything at once, and the rate is three times the run's.
 */
import type { ChildProcess } from "node:child_process";
import { wallUs } from "../../client/clock.ts";
import type { Driver } from "../../drivers/driver.ts";
import { calibrationChecks } from "../../history/calibration-checks.ts";
import type { CallLine } from "../../history/line.ts";
import type { Calibration } from "../../history/run-document.ts";
import { createSecrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import { arrivalTimesUs } from "../../workload/arrivals.ts";
import { guardBudget } from "../../workload/budget.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import type { Profile } from "../../workload/load-profiles.ts";
import { type DriverName, ratesOf } from "./calibration-plan.ts";
import type { CalibrationStub } from "./start-stub.ts";

/** It has reads, calls that work and streams; played without a session, so that every call is one of the schedule. */
export const STORY = "steady-mix";
/** First calls open connections and run cold; they do not count. */
const WARM_UP_S = 1;
/** With the warm-up. */
const STEADY_S = 2.2;
/** From the beginning of the stall to the end of what comes of it; the stub stands still for a fifth of it. */
const STALLED_S = 1;
const STALL_S = 0.2;
const STALL_AFTER_S = 0.2;
const NULL_S = 0.5;
const TENANTS = 12;

export const targetAt = (url: string): Target => ({
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

type DriverCalibration = {
  name: DriverName;
  driver: Driver;
  /** The highest rate that the run plays with it, calls per second. */
  peakPerS: number;
  seed: number;
  precise?: boolean;
  /** It writes no line for an admitted call: then no more than the first rate is asked with a line each. */
  foldsAll?: boolean;
  onSpawn?(child: ChildProcess): void;
  onFolder?(path: string): void;
  signal: AbortSignal;
};

const phasesOf = (schedule: readonly number[]) => ({
  firstUs: schedule[0] ?? 0,
  stallFromUs: (STEADY_S + STALL_AFTER_S) * 1e6,
  stallUs: STALL_S * 1e6,
  nullFromUs: (STEADY_S + STALLED_S) * 1e6,
});

export const calibrateDriver = async (stub: CalibrationStub, of: DriverCalibration): Promise<Calibration[]> => {
  const { name, driver, seed, signal } = of;
  const { ratePerS, ceilingPerS: triplePerS } = ratesOf(of.peakPerS);
  const ceilingPerS = of.foldsAll === true ? ratePerS : triplePerS;
  const profile: Profile = {
    name: "calibration",
    pieces: [
      { from: ratePerS, to: ratePerS, durationS: STEADY_S + STALLED_S },
      { from: ceilingPerS, to: ceilingPerS, durationS: NULL_S },
    ],
  };
  const arrivals = "poisson";
  const schedule = arrivalTimesUs(profile, arrivals, seed);
  const target = targetAt(stub.url);
  const lines: CallLine[] = [];
  await stub.begin(phasesOf(schedule));
  const epochUs = wallUs();
  const stage = "calibration";
  const { problems } = await driver({
    job: {
      stage,
      idPrefix: `${stage}.c`,
      story: STORY,
      seed,
      profile,
      arrivals,
      target,
      view: viewOf(target),
      epochUs,
      drainMs: 2_000,
      ...(of.precise === true ? { precise: true as const } : {}),
    },
    secrets: createSecrets("."),
    budget: guardBudget({}),
    onLine: (line) => lines.push(line),
    ...(of.onSpawn === undefined ? {} : { onSpawn: of.onSpawn }),
    ...(of.onFolder === undefined ? {} : { onFolder: of.onFolder }),
    signal,
  });
  const { stamps, stoodStillUs } = await stub.report();
  const failed = problems.find(({ verdict }) => verdict === "fail");
  if (lines.length === 0) throw new Error((failed ?? problems[0])?.reason ?? "the driver made no calls");
  return calibrationChecks({
    driver: name,
    schedule,
    arrivals,
    ratePerS,
    ceilingPerS,
    lines,
    stoodStillUs,
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

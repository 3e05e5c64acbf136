/**
 * Calibrates each driver before a run says anything about time with it: the driver plays one schedule against a stub, and
 * its lines are compared with the stub's stamps (history/calibration-checks.ts). The schedule has three phases. Steady:
 * known delays and events. Stalled: the stub stands still once. Null: it answers at once, at three times the run's rate.
 */

import type { Deployment, RunContext } from "../../deployments/deployment.ts";
import type { Drive, DriveJob, Driver } from "../../drivers/driver.ts";
import { driveK6 } from "../../drivers/k6/k6.ts";
import { driveOpenLoop } from "../../drivers/open-loop/driver.ts";
import { consequencesOf } from "../../faults/disturbance.ts";
import { CEILING_SHARE, calibrationChecks, failedChecks } from "../../history/calibration-checks.ts";
import type { CallLine } from "../../history/line.ts";
import type { Calibration } from "../../history/run-document.ts";
import { calibrationDoubts } from "../../history/time-doubts.ts";
import { INVARIANTS } from "../../invariants/catalogue.ts";
import { type Hands, inHand, NO_HANDS, scenarioOf } from "../../stages/play.ts";
import * as planning from "../../stages/stage-plan.ts";
import { wallUs } from "../../supervision/waiting.ts";
import { createSecrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import { seeTool } from "../../tools/find-tool.ts";
import { guardBudget } from "../../workload/budget.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { arrivalTimesUs, constant, type Profile, profilePeakPerS } from "../../workload/load-profiles.ts";
import { type CalibrationStub, STALL_S, STALLED_S, STEADY_S, startCalibrationStub } from "./stub.ts";

/** autocannon is not calibrated, because no claim about its stages is about time. */
type DriverName = Exclude<planning.LoadStage["driver"], "autocannon">;

type Ceiling = { mode: "a line each" | "folded"; perS: number; forS: number };

type CalibrationPlan = {
  /** The highest rate of each driver that is used, in calls per second. */
  peaks: ReadonlyMap<DriverName, number>;
  /** Further rates that the open-loop driver must hold, each in its mode. */
  ceilings?: readonly Ceiling[];
  /** Every open-loop stage folds its calls. Three times the rate is then tried with folded calls alone, by `ceilings`. */
  foldsAll?: boolean;
  precise?: boolean;
};

const STEADY_PER_S = { least: 200, most: 500 } as const;

const TIMED = new Set(INVARIANTS.flatMap(({ id, time }) => (time === undefined ? [] : [id])));

/** Reports whether a stage is about time; one with a fault is only by its objectives or its judges. */
const isAboutTime = ({ disturbance, objectives, judges }: planning.LoadStage): boolean =>
  !consequencesOf(disturbance).breaks || objectives === true || judges.some((id) => TIMED.has(id));

export const ratesOf = (peakPerS: number): { ratePerS: number; ceilingPerS: number } => {
  const ratePerS = Math.min(STEADY_PER_S.most, Math.max(STEADY_PER_S.least, peakPerS));
  return { ratePerS, ceilingPerS: Math.max(3 * peakPerS, ratePerS) };
};

/** If a stage folds its calls, the plan also tries three times the rate with folded calls. */
export const calibrationPlanOf = (deployment: Deployment, plans: readonly planning.StagePlan[]): CalibrationPlan => {
  const stages = plans.filter((plan) => plan.kind === "load");
  const peaks = new Map<DriverName, number>();
  for (const plan of stages) {
    const { driver, segments = 1 } = plan;
    if (driver === "autocannon" || !isAboutTime(plan) || planning.stageMissing(plan, deployment).length > 0) continue;
    const profile = planning.plannedFor(plan, deployment)?.profile;
    const { load_max_rps: permitted = planning.RATE_UNKNOWN_PER_S } = deployment.target.permits ?? {};
    const peak = profile === undefined ? permitted : profilePeakPerS(profile);
    peaks.set(driver, Math.max(peaks.get(driver) ?? 0, peak / segments));
  }
  const ofOpenLoop = stages.filter(({ driver }) => driver === "open-loop");
  const folds = ofOpenLoop.some(({ fold }) => fold === true);
  const peak = folds ? peaks.get("open-loop") : undefined;
  return {
    peaks,
    ceilings: peak === undefined ? [] : [{ mode: "folded", perS: ratesOf(peak).ceilingPerS, forS: 0.5 }],
    foldsAll: folds && ofOpenLoop.every(({ fold }) => fold === true),
    precise: ofOpenLoop.some(({ precise }) => precise === true),
  };
};

/** Reads, working calls and streams, all without a session, so that every call belongs to the schedule. */
const STORY = "steady-mix";
/** The first calls open connections and run cold code, so they do not count. */
const WARM_UP_S = 1;
const NULL_S = 0.5;
const TENANTS = 12;
const DRAIN_MS = 2_000;

/** k6 needs a VU for each call that arrives while the stub stands still. */
const calibrationVus = (peakPerS: number): number => {
  const { ratePerS, ceilingPerS } = ratesOf(peakPerS);
  return Math.ceil(1.5 * (ratePerS * (STALL_S + 0.1) + ceilingPerS * 0.03)) + 20;
};

type CalibratedDriver = { name: DriverName; driver: Driver; seed: number; precise?: boolean; signal: AbortSignal };

const playOn = async (
  url: string,
  { driver, seed, precise, signal }: CalibratedDriver,
  { stage, story, profile, ...hear }: Pick<DriveJob, "stage" | "story" | "profile"> & Pick<Drive, "onLine" | "onFold">,
) => {
  const target: Target = {
    schema: "floodgate/target@1",
    name: "calibration",
    base_url: url,
    tenants: Array.from({ length: TENANTS }, (_, k) => ({
      org: `org_calibration_${k}`,
      server: { key: `svc_sk_live_calibration${k}` },
    })) as NonNullable<Target["tenants"]>,
  };
  const epochUs = wallUs();
  const job: DriveJob = {
    ...{ stage, story, profile, epochUs, seed, target, view: viewOf(target), idPrefix: `${stage}.c` },
    ...{ arrivals: "poisson", drainMs: DRAIN_MS, precise: precise === true ? true : undefined },
  };
  const schedule = arrivalTimesUs(profile, job.arrivals, seed);
  const driven = await driver({ job, secrets: createSecrets("."), budget: guardBudget({}), ...hear, signal });
  return { schedule, epochUs, ...driven };
};

/** `peakPerS`: the highest rate that the run plays with the driver. With `foldsAll` the null phase is no faster. */
export const calibrateDriver = async (
  stub: CalibrationStub,
  of: CalibratedDriver,
  peakPerS: number,
  foldsAll = false,
): Promise<Calibration[]> => {
  const { ratePerS, ceilingPerS: triplePerS } = ratesOf(peakPerS);
  const ceilingPerS = foldsAll ? ratePerS : triplePerS;
  const profile: Profile = {
    name: "calibration",
    pieces: [
      { from: ratePerS, to: ratePerS, durationS: STEADY_S + STALLED_S },
      { from: ceilingPerS, to: ceilingPerS, durationS: NULL_S },
    ],
  };
  await stub.begin(arrivalTimesUs(profile, "poisson", of.seed)[0] ?? 0);
  const lines: CallLine[] = [];
  const { schedule, epochUs, problems } = await playOn(stub.url, of, {
    ...{ stage: "calibration", story: STORY, profile },
    onLine: (line) => void lines.push(line),
  });
  const { stamps, stoodStillUs } = await stub.report();
  const problem = problems.find(({ verdict }) => verdict === "fail") ?? problems[0];
  if (lines.length === 0) throw new Error(problem?.reason ?? "the driver made no calls");
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

/** Measures the rate that a driver holds against a server that answers at once; late and missing calls lower it. */
export const heldRate = async (
  { nullUrl, look }: Pick<CalibrationStub, "nullUrl" | "look">,
  of: CalibratedDriver,
  { mode, perS, forS }: Ceiling,
): Promise<Calibration> => {
  let written = 0;
  const count = ({ offered }: { offered: number }): void => {
    written += offered;
  };
  await look();
  const { schedule, epochUs, startUs } = await playOn(nullUrl, of, {
    ...{ stage: "ceiling", story: "catalog-reads", profile: constant(perS, forS) },
    onLine: () => count({ offered: 1 }),
    onFold: mode === "folded" ? count : undefined,
  });
  const { calls, lastUs } = await look();
  const lastDueUs = schedule.at(-1) ?? 0;
  const tookUs = Math.max(lastDueUs, lastUs - epochUs - (startUs ?? 0));
  // A call that arrived but was not written down does not count as held.
  const share = schedule.length === 0 ? 0 : Math.min(calls, written) / schedule.length;
  const measured = (perS * share * lastDueUs) / Math.max(1, tookUs);
  return {
    ...{ name: `${of.name}: null server, ${mode}, rate held`, driver: of.name, about: "ceiling", unit: "1/s" },
    ...{ truth: perS, measured, verdict: measured >= CEILING_SHARE * perS ? "pass" : "fail" },
  };
};

/** `k6Path` is called only if the plan uses k6, and throws if k6 cannot be had. */
type How = { seed: number; signal: AbortSignal; k6Path(): Promise<string>; hands?: Hands };

/** Calibrates each driver of the plan. A calibration that cannot be made counts as failed. */
export const calibrate = async (plan: CalibrationPlan, { seed, signal, k6Path, hands = NO_HANDS }: How) => {
  const found: Calibration[] = [];
  const stub = await startCalibrationStub().catch((error: Error) => error);
  for (const [name, peakPerS] of plan.peaks) {
    if (signal.aborted) break;
    const { ceilings = [], foldsAll, precise }: Partial<CalibrationPlan> = name === "open-loop" ? plan : {};
    try {
      if (stub instanceof Error) throw stub;
      const how = name === "k6" && {
        k6Path: await k6Path(),
        scenario: scenarioOf(STORY),
        vus: calibrationVus(peakPerS),
      };
      const driver = inHand(hands, `the ${name} driver of the calibration`, how ? driveK6(how) : driveOpenLoop);
      const of = { name, driver, seed, signal, precise };
      const checks = await calibrateDriver(stub, of, peakPerS, foldsAll);
      for (const ceiling of ceilings) checks.push(await heldRate(stub, of, ceiling));
      if (!signal.aborted) found.push(...checks);
    } catch (error) {
      const what = `${name}: could be calibrated (${(error as Error).message})`;
      found.push({ name: what, driver: name, truth: 1, measured: 0, unit: "1", verdict: "inconclusive" });
    }
  }
  if (!(stub instanceof Error)) await stub.end();
  return found;
};

export const calibrateRun = async (context: RunContext, plan: CalibrationPlan): Promise<void> => {
  const { supervisor: hands, events, signal, seed } = context;
  const drivers = [...plan.peaks.keys()];
  if (drivers.length === 0 || signal.aborted) return;
  events.step(`calibration: ${drivers.join(" and ")}, against a server of known delays`);
  const checks = await calibrate(plan, { seed, signal, k6Path: () => context.tool("k6"), hands });
  context.addCalibration(checks);
  const held = checks.filter(({ verdict }) => verdict === "pass").length;
  const rest = held === checks.length ? "" : "; claims about time that the others could change stay open:";
  events.result(`  ${held} of ${checks.length} checks hold${rest}`);
  const doubts = drivers.flatMap((driver) => calibrationDoubts(failedChecks(checks, driver), 0));
  for (const doubt of doubts) events.result(`  ${doubt}`);
};

const RATE_PER_S = 500;
/** The rates that the open-loop driver is built to hold from one process, in each mode. */
const CEILINGS: readonly Ceiling[] = [
  { mode: "a line each", perS: 6_000, forS: 3 },
  { mode: "folded", perS: 14_000, forS: 3 },
];

/** Calibrates this machine without a run, for `doctor --calibrate`; builds no tool. */
export const calibrateMachine = async ({ precise, ...how }: Pick<How, "seed" | "signal"> & { precise: boolean }) => {
  const { tool, problem } = await seeTool("k6", {});
  const drivers: DriverName[] = tool === null ? ["open-loop"] : ["open-loop", "k6"];
  const peaks = new Map(drivers.map((name) => [name, RATE_PER_S]));
  const k6Path = async () => tool?.path ?? "k6";
  const all = await calibrate({ peaks, ceilings: CEILINGS, precise }, { ...how, k6Path });
  const why = problem ?? "it is not built yet: npx floodgate dev tools";
  return {
    checks: all.filter(({ about }) => about !== "ceiling"),
    ceilings: all.filter(({ about }) => about === "ceiling"),
    lacking: tool === null ? [`not calibrated: ${why}`] : [],
  };
};

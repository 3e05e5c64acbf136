/**
 * One stage under load: a driver plays a story, a disturbance may happen to the deployment meanwhile, then the stage is
 * drained, the witnesses are read and the invariants are folded over its lines.
 */
import { dirname, join } from "node:path";
import type { Drive, Driven, Driver } from "../../drivers/driver.ts";
import { driveK6 } from "../../drivers/k6/driver.ts";
import { driveOpenLoop } from "../../drivers/open-loop/driver.ts";
import type { Problem } from "../../drivers/open-loop/job.ts";
import type { FaultLine, Line } from "../../history/line.ts";
import { measureStage } from "../../history/measure.ts";
import type { Claim, StageSummary } from "../../history/run-document.ts";
import type { StageFacts } from "../../history/stage-facts.ts";
import { INVARIANTS } from "../../invariants/catalogue.ts";
import { inOrder, judgeStage, ofCutOffStage } from "../../invariants/judge-stage.ts";
import { countArrivals } from "../../workload/arrivals.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import { type TenantReadings, viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { profileDurationS, profilePeakPerS } from "../../workload/load-profiles.ts";
import type { Reach, Story } from "../../workload/story.ts";
import type { Deployment } from "../deployments/deployment.ts";
import { disturb, disturbanceMissing } from "../disturbances/disturb.ts";
import type { Disturbed } from "../disturbances/disturbance.ts";
import { faultRecords } from "../disturbances/link-fault.ts";
import { paceOf } from "../disturbances/pace.ts";
import { createRecentCalls } from "../disturbances/recent-calls.ts";
import { toleratingRefusals } from "../disturbances/tolerated.ts";
import { REPOSITORY } from "../environment.ts";
import { type RunContext, stoppedBy } from "../run-context.ts";
import { sloClaims } from "./objectives.ts";
import { observe, observedStage } from "./observers.ts";
import { type PlannedLoad, plannedLoad } from "./planned-load.ts";
import { reachedClaims, skippedStage } from "./reached-claim.ts";
import type { StageOutcome } from "./stage-outcome.ts";
import type { LoadStage } from "./stage-plan.ts";
import { readTenants, readWitnesses } from "./witnesses.ts";

const storyOfPlan = (plan: LoadStage): Story => {
  const story = STORIES.get(plan.story);
  if (story === undefined) throw new Error(`stage ${plan.name}: there is no story "${plan.story}"`);
  return story;
};

type Known = Pick<Deployment, "target" | "embedded" | "found">;

const viewWith = ({ target, found }: Known, readings: TenantReadings = {}): TargetView => ({
  ...viewOf(target, readings),
  capacity: found,
});

/** The load of the stage by what is known now; `null` where a rate has to be found first. */
export const plannedFor = (plan: LoadStage, deployment: Known, view = viewWith(deployment)): PlannedLoad | null =>
  plannedLoad(plan, storyOfPlan(plan), view, {
    maxPerS: deployment.target.permits?.load_max_rps,
    embedded: deployment.embedded,
  });

/** What the deployment lacks for the stage, by name. */
export const stageMissing = (
  plan: LoadStage,
  deployment: Pick<Deployment, "target" | "faults" | "faultsMissing">,
  view: TargetView = viewOf(deployment.target),
): string[] => [...storyOfPlan(plan).missing(view), ...disturbanceMissing(plan.disturbance, deployment)];

const driverFor = async (context: RunContext, plan: LoadStage): Promise<Driver> => {
  if (plan.driver === "open-loop") return driveOpenLoop;
  return driveK6({
    k6Path: await context.tool("k6"),
    scenario: join(REPOSITORY, "scenarios", `${plan.story}.ts`),
    keepIn: dirname(context.folder.pathOf("k6/summary")),
  });
};

type Played = { driven: Driven; disturbed: Disturbed; faults: FaultLine[] };

const play = async (
  context: RunContext,
  deployment: Deployment,
  plan: LoadStage,
  job: Drive["job"],
  lines: Line[],
): Promise<Played> => {
  const { disturbance } = plan;
  const forgets: (() => void)[] = [];
  const recent = createRecentCalls();
  const loadOver = new AbortController();
  const faults: FaultLine[] = [];
  const keep = (line: Line): void => {
    lines.push(line);
    context.line(line);
  };
  const drive: Drive = {
    job,
    secrets: deployment.secrets,
    lease: disturbance?.kind === "link-fault" ? toleratingRefusals(deployment.lease) : deployment.lease,
    ...(plan.segments === undefined ? {} : { segments: plan.segments }),
    onLine: (line) => {
      keep(line);
      recent.add(line);
    },
    onProgress: (text) => context.events.progress(`${plan.name}: ${text}`),
    onSpawn: ({ pid }) => {
      // One that could not be spawned has no number; the driver reports it.
      if (pid !== undefined) forgets.push(context.supervisor.adopt(`the ${plan.driver} driver`, pid));
    },
    onFolder: (path) => void forgets.push(context.supervisor.ownFolder(`${plan.name}: what k6 is handed`, path)),
    signal: context.signal,
  };
  let disturbed: Disturbed = { problems: [], notes: [] };
  let besideOver: Promise<void> = Promise.resolve();
  const disturbing = async (): Promise<void> => {
    if (disturbance === undefined) return;
    const onLine = (line: FaultLine): void => {
      faults.push(line);
      keep(line);
    };
    const signal = AbortSignal.any([context.signal, loadOver.signal]);
    const ratePerS = profilePeakPerS(job.profile);
    const about = { context, deployment, stage: plan.name, ratePerS, signal, recent, onLine };
    disturbed = await disturb(disturbance, about).catch(
      (error: Error): Disturbed => ({
        problems: [{ verdict: "inconclusive", reason: `the disturbance could not be carried out: ${error.message}` }],
        notes: [],
      }),
    );
  };
  const beside = (): Promise<void> => {
    besideOver = disturbing();
    return besideOver;
  };
  try {
    const driver = await driverFor(context, plan);
    const driven = await driver(drive, disturbance === undefined ? undefined : beside).finally(() => loadOver.abort());
    // Where the load ended first: what it was beside is taken back before anything else happens.
    await besideOver;
    return { driven, disturbed, faults };
  } finally {
    for (const forget of forgets) forget();
  }
};

/** What was offered are the arrivals of the seed, not their expected number; the time that calls took to end is no part of the schedule. */
const measured = (
  plan: LoadStage,
  ordered: readonly Line[],
  { driven, job, durationMs }: { driven: Driven; job: Drive["job"]; durationMs: number },
) => {
  const { profile, arrivals, seed } = job;
  const isWhole = driven.scheduledMs > 0 && plan.disturbance === undefined;
  const offered = countArrivals(profile, arrivals, seed);
  const made = ordered.filter((line) => line.type === "call" && line.attempt === 0 && line.unscheduled === undefined);
  const wholeMs = profileDurationS(profile) * 1000;
  // The last arrival may come long before the end of the schedule, and a driver may be done with it then.
  const scheduledMs = made.length >= offered ? wholeMs : Math.min(driven.scheduledMs, wholeMs);
  return measureStage(ordered, {
    ...{ stage: plan.name, durationMs },
    ...(isWhole ? { offeredRatePerS: offered / profileDurationS(profile), scheduledMs } : {}),
  });
};

const judged = (
  plan: LoadStage,
  facts: StageFacts,
  ordered: readonly Line[],
  parts: { problems: readonly Problem[]; notes: readonly string[]; reach: Reach; summary: StageSummary },
  replay: string,
): Claim[] => {
  const judges = INVARIANTS.filter(({ id }) => plan.judges.includes(id));
  return [...reachedClaims(plan, parts, replay), ...judgeStage(judges, facts, ordered, replay)];
};

const NO_RATE = "a rate: `limits` state none and a ramp inside permits.load_max_rps met no limit";

export const playLoadStage = async (
  context: RunContext,
  deployment: Deployment,
  plan: LoadStage,
): Promise<StageOutcome> => {
  const { seed, replay, epochUs } = context;
  const { target } = deployment;
  const story = storyOfPlan(plan);
  const tenants = await readTenants(target);
  const readings = Object.fromEntries(
    Object.entries(tenants).map(([org, { used_at_start: used }]) => [org, used === undefined ? {} : { used }]),
  );
  const view = viewWith(deployment, readings);
  const lacking = stageMissing(plan, deployment, view);
  if (lacking.length > 0) return skippedStage(plan, deployment, lacking, replay);
  for (const org of story.noisy(view)) if (tenants[org] !== undefined) tenants[org].noisy = true;
  const planned = plannedFor(plan, deployment, view);
  if (planned === null) return skippedStage(plan, deployment, [NO_RATE], replay);
  const { profile, arrivals, reach } = planned;
  const idRun = `${context.run}.${plan.name}`;
  const job: Drive["job"] = {
    ...{ stage: plan.name, idPrefix: `${idRun}.c`, story: plan.story, seed, profile, arrivals, target, view, epochUs },
  };
  const before = await observe(deployment);
  const began = performance.now();
  const lines: Line[] = [];
  const { driven, disturbed, faults } = await play(context, deployment, plan, job, lines);
  const durationMs = performance.now() - began;
  const isCutOff = context.signal.aborted || stoppedBy(context) !== null;
  const facts: StageFacts = {
    stage: plan.name,
    started_at_ms: epochUs / 1000,
    limits: target.limits ?? {},
    shedding: target.shedding ?? "unknown",
    ...(deployment.reference ? { reference: true as const } : {}),
    exclusive: deployment.exclusive,
    ...(plan.reaches === undefined || plan.objectives === true ? { incidental: true as const } : {}),
    tenants,
    faults: plan.disturbance?.kind === "link-fault",
    ...(plan.disturbance?.kind === "link-fault"
      ? { recovery_deadline_ms: paceOf(plan.disturbance, profilePeakPerS(profile), target.limits).recoveryMs }
      : {}),
    ...(await readWitnesses(deployment, idRun, context.signal)),
  };
  const ordered = inOrder(lines);
  const { summary, measurements } = measured(plan, ordered, { driven, job, durationMs });
  const seen = observedStage(plan.name, before, await observe(deployment));
  const problems = [...driven.problems, ...disturbed.problems];
  const claims = judged(plan, facts, ordered, { problems, notes: disturbed.notes, reach, summary }, replay);
  if (plan.objectives === true) claims.push(...sloClaims(target, plan.name, ordered, replay));
  return {
    summary: { ...summary, driver: plan.driver },
    lines: ordered,
    facts,
    claims: isCutOff ? claims.map(ofCutOffStage) : claims,
    measurements: [...measurements, ...seen.measurements],
    faults: faultRecords(faults),
    notes: [...driven.notes, ...seen.notes],
  };
};

/** Plays a capacity search to its end on a deployment, and writes down what was found as one stage of a run. */

import { type Answer, firstLimit } from "../../capacity/answer.ts";
import { capacityClaims, capacityMeasurement, type Found } from "../../capacity/capacity-claims.ts";
import { advise, type Demand } from "../../capacity/demand.ts";
import { generatorDoubt } from "../../capacity/generator-limit.ts";
import { judgeTallies, type ProbePlan, type ProbeResult } from "../../capacity/probe.ts";
import { answerSoFar, nextStep, type SearchPolicy } from "../../capacity/search.ts";

import { type ShareObjective, tallyCalls, tallyPlainly } from "../../capacity/tally-calls.ts";
import type { Deployment } from "../../deployments/deployment.ts";
import { type RunContext, stoppedBy } from "../../deployments/run-context.ts";
import type { DriveJob } from "../../drivers/driver.ts";
import { hostDoubts } from "../../drivers/host-notes.ts";
import type { CallLine, Line } from "../../history/line.ts";
import { StageMeasure } from "../../history/measure.ts";
import type { Calibration, Claim, Protocol } from "../../history/run-document.ts";
import { calibrationDoubts, inDoubt } from "../../history/time-doubts.ts";
import { ofCutOffStage } from "../../invariants/judge-stage.ts";
import { playLevel } from "../../stages/play.ts";
import { readWitnesses, statedFacts } from "../../stages/witnesses.ts";
import { pause } from "../../supervision/waiting.ts";
import type { Arrivals } from "../../workload/arrivals.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { constant } from "../../workload/load-profiles.ts";

type ProbeSetting = {
  stage: string;
  job: Pick<DriveJob, "story" | "view" | "arrivals">;
  objectives: readonly ShareObjective[];
};

export type PlayedProbe = ProbeResult & {
  shown: string[];
  organizations: number;
  protocols?: readonly Protocol[];
  /** Why the driver could not play it at all; `null` when it did. */
  failure: string | null;
};

/** A look leaves out recent calls: refusals end sooner than answers and would be overcounted. */
const HOLD_LEAST_US = 100_000;
const HOLD_MOST_US = 5_000_000;
/** A schedule of its own for each probe, the same again for the same seed. */
const SEED_STEP = 7919;

const playProbe = async (
  context: RunContext,
  deployment: Deployment,
  { stage, job, objectives }: ProbeSetting,
  plan: ProbePlan,
  number: number,
): Promise<PlayedProbe> => {
  const limits = objectives.map(({ limit }) => limit);
  const fromUsOf = (startUs: number): number => startUs + plan.warmUpS * 1e6;
  const isClear = (lines: readonly CallLine[], startUs: number, nowUs: number): boolean => {
    let holdUs = HOLD_LEAST_US;
    for (const line of lines) holdUs = Math.max(holdUs, line.done_us - line.intended_us);
    const [fromUs, toUs] = [fromUsOf(startUs), nowUs - Math.min(HOLD_MOST_US, 1.2 * holdUs)];
    if (toUs <= fromUs) return false;
    return judgeTallies(tallyPlainly(lines, objectives, { fromUs, toUs }), limits, plan.dispersions) !== "open";
  };
  const {
    lines,
    startUs = 0,
    cutOffUs,
    counts,
    host,
    problems,
    protocols,
  } = await playLevel(
    context,
    deployment,
    {
      ...job,
      stage,
      seed: (context.seed + number * SEED_STEP) % 2 ** 31,
      idPrefix: `${context.run}.${stage}.p${number}.c`,
      profile: constant(plan.ratePerS, plan.warmUpS + plan.playS),
    },
    plan.mayStopEarly ? isClear : undefined,
  );
  const fromUs = fromUsOf(startUs);
  const wholeUs = fromUs + plan.playS * 1e6;
  const toUs = Math.min(wholeUs, cutOffUs ?? wholeUs);
  return {
    ...tallyCalls(lines, objectives, { fromUs, toUs }),
    plan,
    playedS: Math.max(0, (toUs - fromUs) / 1e6),
    protocols,
    generator: {
      ...(counts ?? { lagMsP99: 0, dropped: 0, queued: 0, unmade: 0 }),
      cpuShare: host?.cpu_share ?? null,
      stealShare: host?.steal_share ?? null,
      notes: hostDoubts(stage, host),
    },
    failure: counts === undefined ? (problems[0]?.reason ?? "the driver did not end its schedule") : null,
  };
};

const AFTER_DOUBT_MS = 1_000;
const DOUBT_MOST_MS = 15_000;
const CAPACITY_STAGE = "capacity";

type CapacityWish = {
  story: string;
  arrivals: Arrivals;
  objectives: readonly ShareObjective[];
  policy: SearchPolicy;
  demand: Demand | null;
  onProbe(probe: PlayedProbe): void;
};

type Searched = { answer: Answer; probes: PlayedProbe[]; cutOff: string | null };

const search = async (context: RunContext, deployment: Deployment, wish: CapacityWish): Promise<Searched> => {
  const { story, arrivals, objectives, policy } = wish;
  const limits = objectives.map(({ limit }) => limit);
  const setting: ProbeSetting = {
    stage: CAPACITY_STAGE,
    job: { story, arrivals, view: viewOf(deployment.target) },
    objectives,
  };
  const probes: PlayedProbe[] = [];
  let doubts = 0;
  for (;;) {
    const step = nextStep(probes, limits, policy);
    if ("answer" in step) return { answer: step.answer, probes, cutOff: null };
    const { probe } = step;
    context.events.progress(
      `capacity: probe ${probes.length + 1}, ${probe.purpose}, ${probe.ratePerS.toFixed(1)} calls/s`,
    );
    const played = await playProbe(context, deployment, setting, probe, probes.length);
    const cutOff = context.signal.aborted ? "the run was stopped" : (stoppedBy(context) ?? played.failure);
    if (cutOff !== null) return { answer: answerSoFar(probes, limits, policy), probes, cutOff };
    probes.push(played);
    wish.onProbe(played);
    doubts = generatorDoubt(played) === null ? 0 : doubts + 1;
    if (doubts > 0) await pause(Math.min(DOUBT_MOST_MS, AFTER_DOUBT_MS * 2 ** (doubts - 1)), context.signal);
  }
};

const foundOf = ({ answer, probes }: Searched, deployment: Deployment, wish: CapacityWish): Found => {
  const { objectives, demand } = wish;
  const binding = answer.binding === null ? null : objectives[answer.binding];
  const limit = firstLimit(probes, answer.ratePerS, binding?.isTime === true);
  const setting = {
    replicas: deployment.target.limits?.replicas ?? null,
    organizations: Math.max(1, ...probes.map(({ organizations }) => organizations)),
  };
  return {
    answer,
    limit,
    demand,
    advice: advise(answer, limit, setting, demand),
    objectives: objectives.map(({ text }) => text),
    calls: probes.reduce((sum, { calls }) => sum + calls, 0),
  };
};

/** A rate that hangs on a time is as uncertain as the generator's times are; one that hangs on refusals is not. */
const asCalibrated = (claim: Claim, objectives: readonly ShareObjective[], failed: readonly Calibration[]): Claim => {
  const isOfAll = claim.id === "capacity/demand";
  const limitsMs = objectives.flatMap(({ text, limitMs }) =>
    limitMs !== undefined && (isOfAll || claim.id === `capacity/${text}`) ? [limitMs] : [],
  );
  const doubts = limitsMs.length === 0 ? [] : calibrationDoubts(failed, Math.min(...limitsMs));
  const isDecided = claim.verdict === "pass" || claim.verdict === "fail";
  if (doubts.length === 0 || !isDecided) return claim;
  return { ...claim, verdict: "inconclusive", reason: inDoubt(doubts, `${claim.verdict}, ${claim.reason}`) };
};

/** The answer and what goes with it; `null` when nothing could be played. */
export const playCapacity = async (
  context: RunContext,
  deployment: Deployment,
  wish: CapacityWish,
): Promise<{ found: Found; probes: PlayedProbe[] }> => {
  const began = performance.now();
  const measure = new StageMeasure(CAPACITY_STAGE);
  // Measured as they come: of a probe only its figures are kept.
  const line = (one: Line): void => {
    measure.see(one);
    context.line(one);
  };
  const searched = await search({ ...context, line }, deployment, wish);
  const { probes, cutOff } = searched;
  const found = foundOf(searched, deployment, wish);
  const { target } = deployment;
  const protocols = [...new Set(probes.flatMap((probe) => probe.protocols ?? []))].sort();
  const { summary, measurements } = measure.end({ durationMs: performance.now() - began });
  const failed = context.failedChecks("open-loop");
  const claims = capacityClaims(found, CAPACITY_STAGE, context.replay)
    .map((claim) => asCalibrated(claim, wish.objectives, failed))
    .map(
      (claim): Claim =>
        cutOff === null ? claim : { ...ofCutOffStage(claim), reason: `${cutOff}; so far: ${claim.reason}` },
    );
  await context.folder.writeJson("capacity.json", { ...found, probes });
  await context.addStage({
    summary: { ...summary, driver: "open-loop", ...(protocols.length === 0 ? {} : { protocols }) },
    facts: {
      ...statedFacts(CAPACITY_STAGE, { target, exclusive: deployment.exclusive }),
      started_at_ms: context.epochUs / 1000,
      ...(await readWitnesses(deployment, `${context.run}.${CAPACITY_STAGE}`, context.signal)),
    },
    claims,
    // Of probes at many rates together, times and rates mean nothing.
    measurements: [
      ...measurements.filter(({ name }) => name === "refusal_ms_p99"),
      ...capacityMeasurement(found, CAPACITY_STAGE),
    ],
    faults: [],
    notes: [...new Set(probes.flatMap(({ generator }) => generator.notes))].slice(0, 10),
  });
  return { found, probes };
};

/** `capacity`: finds the highest rate at which a deployment keeps its objectives, and whether it meets a demand. */

import * as claiming from "../../capacity/capacity-claims.ts";
import { generatorDoubt } from "../../capacity/generator-limit.ts";
import * as probing from "../../capacity/probe.ts";
import { answerSoFar, nextStep, POLICY, type SearchPolicy, SHORT_POLICY } from "../../capacity/search.ts";
import { type Deployment, openDeployment, type RunContext, stoppedBy } from "../../deployments/deployment.ts";
import { hostDoubts, levelHost } from "../../drivers/driver.ts";
import type { CallLine } from "../../history/line.ts";
import { parseObjectives } from "../../history/objectives.ts";
import { type Calibration, type Claim, groupOf, stageOutcome } from "../../history/run-document.ts";
import { type StageMeasure, stageMeasure } from "../../history/tally.ts";
import { calibrationDoubts, inDoubt, OTHERS_HALF } from "../../history/time-doubts.ts";
import { ofCutOffStage } from "../../invariants/invariant.ts";
import { playLevel } from "../../stages/play.ts";
import { plannedTarget, prepareTarget, readTarget } from "../../stages/stage-plan.ts";
import { IDLE_LOOK_MS, othersOnIdleMachine, witnessedFacts } from "../../stages/witnesses.ts";
import { called, readUserJson, UsageError } from "../../supervision/user-file.ts";
import { pause } from "../../supervision/waiting.ts";
import type { Target } from "../../target/target.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { type Arrivals, constant } from "../../workload/load-profiles.ts";
import { calibrateRun } from "../calibration/calibrate.ts";
import { type Asked, type RunResult, recordRun } from "../recorded-run.ts";

export type CapacityWishes = {
  targetFile: string;
  owned: readonly string[];
  story: string;
  arrivals: Arrivals;
  /** `--slo`; without it, the target file's `slo` for the story. */
  slo: string | undefined;
  demandFile: string | undefined;
  short: boolean;
  policy?: Partial<SearchPolicy>;
};

export type CapacityRun = Asked &
  CapacityWishes & {
    onProbe(probe: PlayedProbe, objectives: readonly probing.ShareObjective[]): void;
    /** The share of all cores that other programs use; default: this machine's. */
    othersOnIdle?: () => Promise<number | null>;
  };

/** The highest rate as a share of the permitted one, which would hold back the bursts of random arrivals. */
const SHARE_OF_PERMIT: Record<Arrivals, number> = { poisson: 0.6, uniform: 0.9 };
/** The capacity is unknown yet, so the driver is calibrated at this rate; the search tries it at twice the answer. */
const RATE_CALIBRATED_PER_S = 200;
/** The default bound on errors: a deployment that answers 503 refuses nothing and is fast. */
const NO_ERRORS = "errors<=1%";
const INTENT = { load: true, faults: false, requests: 1 };

const orUsageError = <T>(about: string, read: () => T): T => {
  try {
    return read();
  } catch (error) {
    throw new UsageError(`${about}${error instanceof Error ? error.message : String(error)}`);
  }
};

const objectivesOf = (story: string, slo: string | undefined, target: Target): probing.ShareObjective[] => {
  const family = story.split("-")[0] as string;
  const stated = slo ?? target.slo?.[story] ?? target.slo?.[family];
  if (stated === undefined) {
    const example = `--slo 'refusals<=1%,p99<=300ms', or slo.${family} in the target file`;
    throw new UsageError(`capacity needs objectives: ${example}`);
  }
  return orUsageError("", () => {
    const objectives = parseObjectives(stated);
    const hasErrors = objectives.some(({ metric }) => metric === "errors");
    return [...objectives, ...(hasErrors ? [] : parseObjectives(NO_ERRORS))].map(probing.shareObjective);
  });
};

/** Composes what to find out, from options and target file. Throws `UsageError` for a user's mistake. */
const questionOf = ({ story, arrivals, slo, demandFile, short, policy }: CapacityWishes, target: Target) => {
  const objectives = objectivesOf(story, slo, target);
  const readDemand = (file: string) => orUsageError(`--demand ${file}: `, () => claiming.demandOf(readUserJson(file)));
  const demand = demandFile === undefined ? null : readDemand(demandFile);
  const played = called("scenario", story, STORIES.values(), `expected one of ${[...STORIES.keys()].join(", ")}`);
  const maxPerS = (target.permits?.load_max_rps ?? Number.POSITIVE_INFINITY) * SHARE_OF_PERMIT[arrivals];
  return {
    ...{ story, arrivals, objectives, demand, limits: objectives.map(({ limit }) => limit) },
    policy: { ...(short ? SHORT_POLICY : POLICY), maxPerS, ...policy },
    lacks: played.missing(viewOf(target)),
  };
};

type Question = ReturnType<typeof questionOf>;

const BRACKETS_SHOWN = 8;
const LOOKS_S = (2 * IDLE_LOOK_MS) / 1000;

/** Plans from the target file alone: reads no secret, locks nothing, sends nothing. Rates are calls per second. */
export const planCapacity = async (wishes: CapacityWishes) => {
  const { target, refusals } = await readTarget(wishes.targetFile, wishes.owned, INTENT);
  const { story, arrivals, objectives, policy, lacks } = questionOf(wishes, target);
  const { maxPerS, startPerS, playS, confirmS, warmUpS } = policy;
  const doubled = Array.from({ length: BRACKETS_SHOWN }, (_, i) => startPerS * 2 ** i);
  return {
    schema: "floodgate/plan@1",
    ...{ target: plannedTarget(target), story, arrivals },
    objectives: objectives.map(({ text }) => text),
    /** `null` if the target file states no bound. */
    max_per_s: Number.isFinite(maxPerS) ? maxPerS : null,
    /** The permitted rates that are played until an objective is broken. */
    rates: [
      ...doubled.filter((rate) => rate < maxPerS),
      ...(maxPerS < startPerS * 2 ** BRACKETS_SHOWN ? [maxPerS] : []),
    ],
    // Each failed confirmation prolongs the search by half of `playS`, twice at the most. A probe takes `warmUpS` or more,
    // and stands between two looks at the idle machine.
    seconds_at_most: Math.ceil((2 * playS + 4 * (confirmS + warmUpS)) * (1 + LOOKS_S / warmUpS)),
    lacks,
    refused_by_guard: refusals,
  };
};

const STAGE = "capacity";
/** Bounds on how long an early look leaves out the latest calls: refusals end sooner and would be overcounted. */
const HOLD_LEAST_US = 100_000;
const HOLD_MOST_US = 5_000_000;
const SEED_STEP = 7919;

/** Plays one probe. `failure`: why the driver did not play the probe; `null` if it did. */
const playProbe = async (
  context: RunContext,
  deployment: Deployment,
  { story, arrivals, objectives, limits }: Question,
  plan: probing.ProbePlan,
  number: number,
  measure: StageMeasure,
  othersOnIdle: () => Promise<number | null>,
) => {
  const fromUsOf = (startUs: number): number => startUs + plan.warmUpS * 1e6;
  const isClear = (lines: readonly CallLine[], startUs: number, nowUs: number): boolean => {
    let holdUs = HOLD_LEAST_US;
    for (const line of lines) holdUs = Math.max(holdUs, line.done_us - line.intended_us);
    const [fromUs, toUs] = [fromUsOf(startUs), nowUs - Math.min(HOLD_MOST_US, 1.2 * holdUs)];
    if (toUs <= fromUs) return false;
    return (
      probing.judgeTallies(probing.tallyPlainly(lines, objectives, { fromUs, toUs }), limits, plan.dispersions) !==
      "open"
    );
  };
  const job = {
    ...{ stage: STAGE, story, arrivals, view: viewOf(deployment.target) },
    seed: (context.seed + number * SEED_STEP) % 2 ** 31,
    idPrefix: `${context.run}.${STAGE}.p${number}.c`,
    profile: constant(plan.ratePerS, plan.warmUpS + plan.playS),
  };
  const before = await othersOnIdle();
  const played = await playLevel(context, deployment, job, plan.mayStopEarly ? isClear : undefined);
  const after = await othersOnIdle();
  const { lines, startUs = 0, cutOffUs, counts, host, problems, protocols } = played;
  for (const line of lines) measure.see(line);
  const fromUs = fromUsOf(startUs);
  const wholeUs = fromUs + plan.playS * 1e6;
  const toUs = Math.min(wholeUs, cutOffUs ?? wholeUs);
  return {
    ...probing.tallyCalls(lines, objectives, { fromUs, toUs }),
    plan,
    playedS: Math.max(0, (toUs - fromUs) / 1e6),
    protocols,
    generator: {
      ...(counts ?? { lagMsP99: 0, dropped: 0, queued: 0, unmade: 0 }),
      cpuShare: host?.cpu_share ?? null,
      stealShare: host?.steal_share ?? null,
      throttledShare: host?.throttled_share ?? null,
      othersShare: before === null || after === null ? null : Math.max(before, after),
      notes: hostDoubts(STAGE, levelHost(host)),
    },
    failure: counts === undefined ? (problems[0]?.reason ?? "the driver did not end its schedule") : null,
  };
};

export type PlayedProbe = Awaited<ReturnType<typeof playProbe>>;

const AFTER_DOUBT_MS = 1_000;
const DOUBT_MOST_MS = 15_000;

/** `cutOff`: why the search ended before its answer was sure; `null` if it did not. */
const search = async (
  context: RunContext,
  play: (plan: probing.ProbePlan, number: number) => Promise<PlayedProbe>,
  { limits, policy }: Question,
  onProbe: (probe: PlayedProbe) => void,
) => {
  const probes: PlayedProbe[] = [];
  let doubts = 0;
  for (;;) {
    const step = nextStep(probes, limits, policy);
    if ("answer" in step) return { answer: step.answer, probes, cutOff: null };
    const { probe } = step;
    const rate = probe.ratePerS.toFixed(1);
    context.events.progress(`capacity: probe ${probes.length + 1}, ${probe.purpose}, ${rate} calls/s`);
    const played = await play(probe, probes.length);
    const cutOff = context.signal.aborted ? "the run was stopped" : (stoppedBy(context) ?? played.failure);
    if (cutOff !== null) return { answer: answerSoFar(probes, limits, policy), probes, cutOff };
    probes.push(played);
    onProbe(played);
    doubts = generatorDoubt(played) === null ? 0 : doubts + 1;
    if (doubts > 0) await pause(Math.min(DOUBT_MOST_MS, AFTER_DOUBT_MS * 2 ** (doubts - 1)), context.signal);
  }
};

/** Makes a claim that rests on times inconclusive if failed checks cast doubt on them; claims on refusals stay. */
const asCalibrated = (
  claim: Claim,
  objectives: readonly probing.ShareObjective[],
  failed: readonly Calibration[],
): Claim => {
  const isOfAll = claim.id === "capacity/demand";
  const limitsMs = objectives.flatMap(({ text, limitMs }) =>
    limitMs !== undefined && (isOfAll || claim.id === `capacity/${text}`) ? [limitMs] : [],
  );
  const doubts = limitsMs.length === 0 ? [] : calibrationDoubts(failed, Math.min(...limitsMs));
  const isDecided = claim.verdict === "pass" || claim.verdict === "fail";
  if (doubts.length === 0 || !isDecided) return claim;
  return { ...claim, verdict: "inconclusive", reason: inDoubt(doubts, `${claim.verdict}, ${claim.reason}`) };
};

/** Throws for a user's mistake before anything is sent. `found` is `null` if the search did not end. */
export const findCapacity = async (request: CapacityRun): Promise<RunResult & { found: claiming.Found | null }> => {
  const prepared = await prepareTarget(request.targetFile, request.owned, INTENT);
  const question = questionOf(request, prepared.target);
  const { story, objectives, demand, policy, lacks } = question;
  if (lacks.length > 0) throw new UsageError(`the target file lacks what ${story} needs: ${lacks.join("; ")}`);
  const about = { profile: "capacity", canJudge: (name: string) => groupOf(name) === "capacity" };
  const { came: found, ...result } = await recordRun({ ...request, ...about, targets: [prepared] }, async (context) => {
    const deployment = await openDeployment(context);
    const peaks = new Map([["open-loop", Math.min(policy.maxPerS, RATE_CALIBRATED_PER_S)] as const]);
    if (objectives.some(({ isTime }) => isTime)) await calibrateRun(context, { peaks });
    const { limits = {} } = deployment.target;
    const began = performance.now();
    const measure = stageMeasure(STAGE);
    const { othersOnIdle = () => othersOnIdleMachine(deployment.target.base_url, OTHERS_HALF, context.signal) } =
      request;
    const play = (plan: probing.ProbePlan, number: number) =>
      playProbe(context, deployment, question, plan, number, measure, othersOnIdle);
    const { answer, probes, cutOff } = await search(context, play, question, (probe) =>
      request.onProbe(probe, objectives),
    );
    const isOfTime = answer.binding !== null && objectives[answer.binding]?.isTime === true;
    const limit = claiming.firstLimit(probes, answer.ratePerS, isOfTime);
    const organizations = Math.max(1, ...probes.map((probe) => probe.organizations));
    const found: claiming.Found = {
      ...{ answer, limit, demand },
      advice: claiming.advise(answer, limit, { replicas: limits.replicas ?? null, organizations }, demand),
      objectives: objectives.map(({ text }) => text),
      calls: probes.reduce((sum, { calls }) => sum + calls, 0),
    };
    const protocols = [...new Set(probes.flatMap((probe) => probe.protocols ?? []))].sort();
    const { summary, measurements } = measure.end({ durationMs: performance.now() - began });
    const failed = context.failedChecks("open-loop");
    const cut = (claim: Claim): Claim =>
      cutOff === null ? claim : { ...ofCutOffStage(claim), reason: `${cutOff}; so far: ${claim.reason}` };
    await context.folder.writeJson("capacity.json", { ...found, probes });
    const { facts, notes } = await witnessedFacts(context, deployment, STAGE, `${context.run}.${STAGE}`);
    await context.addStage(
      stageOutcome({
        summary: { ...summary, driver: "open-loop", ...(protocols.length === 0 ? {} : { protocols }) },
        facts,
        claims: claiming
          .capacityClaims(found, STAGE, context.replay)
          .map((one) => cut(asCalibrated(one, objectives, failed))),
        // Times and rates pooled over probes at many rates mean nothing.
        measurements: [
          ...measurements.filter(({ name }) => name === "refusal_ms_p99"),
          ...claiming.capacityMeasurement(found, STAGE),
        ],
        notes: [...notes, ...new Set(probes.flatMap(({ generator }) => generator.notes))].slice(0, 10),
      }),
    );
    return found;
  });
  return { ...result, found };
};

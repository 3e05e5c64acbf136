/** `capacity`: finds the highest rate at which a deployment keeps its objectives, and whether it meets a demand. */

import * as claiming from "../../capacity/capacity-claims.ts";
import { generatorDoubt } from "../../capacity/generator-limit.ts";
import * as probing from "../../capacity/probe.ts";
import { compareReplicas, type OfReplicas } from "../../capacity/replicas.ts";
import { answerSoFar, nextStep, POLICY, type SearchPolicy, SHORT_POLICY } from "../../capacity/search.ts";
import { type Deployment, openDeployment, type RunContext, stoppedBy } from "../../deployments/deployment.ts";
import { plannedEmbedded } from "../../deployments/tenants.ts";
import { hostDoubts, levelHost } from "../../drivers/driver.ts";
import { ownReplicas, replicasByCommands, scaleRefusals } from "../../faults/replicas.ts";
import type { CallLine } from "../../history/line.ts";
import { parseObjectives } from "../../history/objectives.ts";
import { openBy } from "../../history/reason-codes.ts";
import { type Calibration, type Claim, groupOf, ruleOf, stageOutcome } from "../../history/run-document.ts";
import { type StageMeasure, stageMeasure } from "../../history/tally.ts";
import { calibrationDoubts, inDoubt, OTHERS_HALF } from "../../history/time-doubts.ts";
import { ofCutOffStage } from "../../invariants/invariant.ts";
import { playLevel } from "../../stages/play.ts";
import { type PreparedTarget, plannedTarget, prepareTarget, readTarget } from "../../stages/stage-plan.ts";
import { IDLE_LOOK_MS, othersOnIdleMachine, witnessedFacts } from "../../stages/witnesses.ts";
import { called, readUserJson, UsageError } from "../../supervision/user-file.ts";
import { pause } from "../../supervision/waiting.ts";
import { forReplicas, type Target } from "../../target/target.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { type Arrivals, constant } from "../../workload/load-profiles.ts";
import { calibrateRun } from "../calibration/calibrate.ts";
import { type Asked, recordRun } from "../recorded-run.ts";

export type CapacityWishes = {
  /** Without it, replicas of the reference platform are started. */
  targetFile: string | undefined;
  owned: readonly string[];
  story: string;
  arrivals: Arrivals;
  /** `--slo`; without it, the target file's `slo` for the story. */
  slo: string | undefined;
  demandFile: string | undefined;
  short: boolean;
  /** The numbers of replicas to measure, in turn; empty if the deployment stays as it is. */
  replicas: readonly number[];
  withoutOneReplica: boolean;
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
type Scale = NonNullable<Target["scale"]>;
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

/** The numbers to measure; of the highest of `--replicas`, or of `limits.replicas`, one replica may fail. */
const replicasAsked = ({ replicas, withoutOneReplica }: CapacityWishes, { limits }: Target) => {
  if (!withoutOneReplica) return { replicas, ofReplicas: null };
  const ofReplicas = Math.max(...(replicas.length > 0 ? replicas : [limits?.replicas ?? 0]));
  const expected =
    "--without-one-replica: expected limits.replicas of the target file, or the highest of --replicas, to be";
  if (!Number.isInteger(ofReplicas) || ofReplicas < 2) throw new UsageError(`${expected} 2 or more; got ${ofReplicas}`);
  return { replicas: [...new Set([...replicas, ofReplicas - 1, ofReplicas])], ofReplicas };
};

/** Composes what to find out, from options and target file. Throws `UsageError` for a user's mistake. */
const questionOf = (wishes: CapacityWishes, target: Target) => {
  const { story, arrivals, slo, demandFile, short, policy, targetFile } = wishes;
  const { replicas, ofReplicas } = replicasAsked(wishes, target);
  const isFixed = replicas.length > 0 && targetFile !== undefined && target.scale === undefined;
  const objectives = objectivesOf(story, slo, target);
  const readDemand = (file: string) => orUsageError(`--demand ${file}: `, () => claiming.demandOf(readUserJson(file)));
  const demand = demandFile === undefined ? null : readDemand(demandFile);
  const played = called("scenario", story, STORIES.values(), `expected one of ${[...STORIES.keys()].join(", ")}`);
  const maxPerS = (target.permits?.load_max_rps ?? Number.POSITIVE_INFINITY) * SHARE_OF_PERMIT[arrivals];
  return {
    ...{ story, arrivals, objectives, demand, limits: objectives.map(({ limit }) => limit), replicas, ofReplicas },
    policy: { ...(short ? SHORT_POLICY : POLICY), maxPerS, ...policy },
    lacks: [
      ...played.missing(viewOf(target)),
      ...(isFixed ? ["`scale` (commands that set the number of replicas)"] : []),
    ],
  };
};

type Question = ReturnType<typeof questionOf>;

const BRACKETS_SHOWN = 8;
const LOOKS_S = (2 * IDLE_LOOK_MS) / 1000;

/** Plans from the target file alone: reads no secret, locks nothing, sends nothing. Rates are calls per second. */
export const planCapacity = async (wishes: CapacityWishes) => {
  const { targetFile, owned } = wishes;
  const read = targetFile === undefined ? null : await readTarget(targetFile, owned, INTENT);
  const { target, refusals } = read ?? { target: plannedEmbedded(), refusals: [] };
  const { scale } = target;
  const { story, arrivals, objectives, policy, lacks, replicas } = questionOf(wishes, target);
  const isScaled = read !== null && replicas.length > 0;
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
    seconds_at_most:
      Math.ceil((2 * playS + 4 * (confirmS + warmUpS)) * (1 + LOOKS_S / warmUpS)) * Math.max(1, replicas.length),
    replicas,
    /** What is run before each search; `scale.set` is run once more at the end. */
    commands: scale ? replicas.flatMap((count) => forReplicas([...scale.set, scale.ready], count)) : [],
    lacks,
    refused_by_guard: [...refusals, ...(isScaled ? scaleRefusals(target) : [])],
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
  stage: string,
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
    ...{ stage, story, arrivals, view: viewOf(deployment.target) },
    seed: (context.seed + number * SEED_STEP) % 2 ** 31,
    idPrefix: `${context.run}.${stage}.p${number}.c`,
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
      notes: hostDoubts(stage, levelHost(host)),
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
    const cutOff = context.signal.aborted ? "the run was stopped" : (stoppedBy(context)?.reason ?? played.failure);
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
  const own = objectives.filter(({ text }) => ruleOf(claim) === `capacity/${text}`);
  const limitsMs = (own.length > 0 ? own : objectives).flatMap(({ limitMs }) => limitMs ?? []);
  const doubts = limitsMs.length === 0 ? [] : calibrationDoubts(failed, Math.min(...limitsMs));
  const isDecided = claim.verdict === "pass" || claim.verdict === "fail";
  if (doubts.length === 0 || !isDecided) return claim;
  return {
    ...claim,
    ...openBy("generator-was-the-limit"),
    reason: inDoubt(doubts, `${claim.verdict}, ${claim.reason}`),
  };
};

const unknownAnswer = (reason: string): claiming.Answer => ({
  ...{ kind: "unknown", ratePerS: 0, low: 0, high: null, binding: null, reason, generator: "no probe was judged" },
});

/** Replicas that have just been started are slower at first: so many seconds at this share of what is expected do not count. */
const COLD_S = 5;
const COLD_SHARE = 0.5;

/** A number of replicas that was set: why that failed, what doubts it afterwards, and the calls per second that warm it up. */
type OfMany = {
  replicas: number;
  failed: string | null;
  coldPerS: number;
  whyNot(count: number): Promise<string | null>;
};

/** Searches on a deployment as it stands, and adds the stage. */
const searchStage = async (
  context: RunContext,
  deployment: Deployment,
  question: Question,
  request: CapacityRun,
  ofMany: OfMany | null = null,
) => {
  const { objectives, policy, demand } = question;
  const stage = ofMany === null ? STAGE : `${STAGE}-of-${ofMany.replicas}`;
  const began = performance.now();
  const measure = stageMeasure(stage);
  const { othersOnIdle = () => othersOnIdleMachine(deployment.target.base_url, OTHERS_HALF, context.signal) } = request;
  // The calls that warm new replicas up come before probe 0, as number -1.
  const first = ofMany === null ? 0 : 1;
  const play = (plan: probing.ProbePlan, number: number) =>
    playProbe(context, deployment, question, stage, plan, first + number, measure, othersOnIdle);
  const searched = async () => {
    if (ofMany === null) return search(context, play, question, (probe) => request.onProbe(probe, objectives));
    const { replicas, failed, coldPerS, whyNot } = ofMany;
    if (failed !== null)
      return { answer: unknownAnswer(`${replicas} replicas: ${failed}`), probes: [], cutOff: "nothing was sent" };
    const ratePerS = Math.min(Math.max(policy.startPerS, coldPerS), policy.maxPerS);
    const cold = { purpose: "bracket", ratePerS, warmUpS: policy.warmUpS, playS: COLD_S } as const;
    await play({ ...cold, mayStopEarly: false, dispersions: [] }, -1);
    const found = await search(context, play, question, (probe) => request.onProbe(probe, objectives));
    const moved = found.cutOff === null ? await whyNot(replicas) : null;
    if (moved === null) return found;
    return { ...found, answer: unknownAnswer(`the number of replicas changed meanwhile: ${moved}`) };
  };
  const { answer, probes, cutOff } = await searched();
  const isOfTime = answer.binding !== null && objectives[answer.binding]?.isTime === true;
  const limit = claiming.firstLimit(probes, answer.ratePerS, isOfTime);
  const organizations = Math.max(1, ...probes.map((probe) => probe.organizations));
  const replicas = ofMany === null ? (deployment.target.limits?.replicas ?? null) : "measured";
  const found: claiming.Found = {
    ...{ answer, limit, demand },
    advice: claiming.advise(answer, limit, { replicas, organizations }, demand),
    objectives: objectives.map(({ text }) => text),
    calls: probes.reduce((sum, { calls }) => sum + calls, 0),
  };
  const protocols = [...new Set(probes.flatMap((probe) => probe.protocols ?? []))].sort();
  const { summary, measurements } = measure.end({ durationMs: performance.now() - began });
  const failed = context.failedChecks("open-loop");
  const cut = (claim: Claim): Claim =>
    cutOff === null ? claim : { ...ofCutOffStage(claim), reason: `${cutOff}; so far: ${claim.reason}` };
  const judged = (claims: readonly Claim[]) => claims.map((one) => cut(asCalibrated(one, objectives, failed)));
  const { facts, notes } = await witnessedFacts(context, deployment, stage, `${context.run}.${stage}`);
  await context.addStage(
    stageOutcome({
      summary: { ...summary, driver: "open-loop", ...(protocols.length === 0 ? {} : { protocols }) },
      facts,
      claims: judged(claiming.capacityClaims(found, stage, context.replay, ofMany !== null)),
      // Times and rates pooled over probes at many rates mean nothing.
      measurements: [
        ...measurements.filter(({ name }) => name === "refusal_ms_p99"),
        ...claiming.capacityMeasurement(found, stage),
      ],
      notes: [...notes, ...new Set(probes.flatMap(({ generator }) => generator.notes))].slice(0, 10),
    }),
  );
  return { found: { ...found, probes }, cutOff, judged };
};

/** Searches with each number of replicas in turn, up to the first that could not be measured. */
const searchReplicas = async (
  context: RunContext,
  deployment: Deployment,
  question: Question,
  request: CapacityRun,
): Promise<string[]> => {
  const { own, target } = deployment;
  const replicas =
    own === undefined
      ? replicasByCommands(context, deployment, target.scale as Scale)
      : ownReplicas({ ...deployment, own });
  const measured: (OfReplicas & { probes: readonly PlayedProbe[] })[] = [];
  let judged = (claims: readonly Claim[]): readonly Claim[] => claims;
  for (const count of question.replicas) {
    const scaled = await replicas.set(count).catch(({ message }: Error) => message);
    const [there, failed] = typeof scaled === "string" ? [deployment, scaled] : [scaled, null];
    const coldPerS = Math.max(0, ...measured.map(({ answer, replicas: of }) => (COLD_SHARE * count * answer.low) / of));
    const ofMany = { replicas: count, failed, coldPerS, whyNot: replicas.whyNot };
    const { found, cutOff, ...rest } = await searchStage(context, there, question, request, ofMany);
    measured.push({ ...found, replicas: count });
    judged = rest.judged;
    if (cutOff !== null) break;
  }
  // After a stop the end of the run sets the number again, within the time that a stop has.
  const isNotSet = ({ message }: Error) => `The number of replicas is not set again: ${message}.`;
  const closing = context.signal.aborted ? "" : await replicas.restore().catch(isNotSet);
  await context.folder.writeJson("capacity.json", { replicas: measured });
  const { lines, claims } = compareReplicas(measured, question, closing, context.replay);
  context.add({ claims: judged(claims) });
  return lines;
};

/** Throws for a user's mistake before anything is sent. `found` is `null` if the search did not end, `lines` compares replicas. */
export const findCapacity = async (request: CapacityRun) => {
  const { targetFile, owned } = request;
  const isScaled = request.replicas.length > 0 || request.withoutOneReplica;
  const targets: PreparedTarget[] =
    targetFile === undefined
      ? []
      : [await prepareTarget(targetFile, owned, INTENT, isScaled ? scaleRefusals : undefined)];
  const question = questionOf(request, targets[0]?.target ?? plannedEmbedded());
  const { story, objectives, policy, lacks } = question;
  if (lacks.length > 0) throw new UsageError(`the target file lacks what ${story} needs: ${lacks.join("; ")}`);
  const about = { profile: "capacity", canJudge: (name: string) => groupOf(name) === "capacity" };
  const { came, ...result } = await recordRun({ ...request, ...about, targets }, async (context) => {
    const deployment = await openDeployment(context);
    const peaks = new Map([["open-loop", Math.min(policy.maxPerS, RATE_CALIBRATED_PER_S)] as const]);
    if (objectives.some(({ isTime }) => isTime)) await calibrateRun(context, { peaks });
    if (isScaled) return { found: null, lines: await searchReplicas(context, deployment, question, request) };
    const { found } = await searchStage(context, deployment, question, request);
    await context.folder.writeJson("capacity.json", found);
    return { found, lines: [] };
  });
  return { ...result, found: came?.found ?? null, lines: came?.lines ?? [] };
};

/**
 * One stage under load: a driver plays a story, faults may be injected meanwhile, then the stage is drained, witnessed
 * and judged. Lines are measured as they come and read back from disk to be judged, so that a soak needs no more memory
 * than a short stage.
 */

import { dirname, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { wallUs } from "../client/clock.ts";
import type { Deployment } from "../deployments/deployment.ts";
import { type RunContext, stoppedBy } from "../deployments/run-context.ts";
import { driveAutocannon } from "../drivers/autocannon/autocannon.ts";
import { closedLoopRefusal } from "../drivers/autocannon/plain-story.ts";
import type { Drive, Driven, Driver, Problem } from "../drivers/driver.ts";
import { driveK6 } from "../drivers/k6/k6.ts";
import { driveOpenLoop } from "../drivers/open-loop/driver.ts";
import { capabilitiesOf, disturbanceMissing, type FaultCapabilities } from "../faults/capabilities.ts";
import { disturb, faultRecords } from "../faults/disturb.ts";
import { consequencesOf, type Disturbance, type Disturbed } from "../faults/disturbance.ts";
import { watchBesideFault } from "../faults/errors-beside-a-fault.ts";
import { faultFacts } from "../faults/pace.ts";
import { createRecentCalls } from "../faults/seen-by-callers.ts";
import { FaultStates } from "../history/fault-states.ts";
import type { FaultLine, Line, MarkLine } from "../history/line.ts";
import { StageMeasure } from "../history/measure.ts";
import { type Claim, HTTP_VERSIONS, type Measurement, type Protocol } from "../history/run-document.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import type { StageOutcome } from "../history/stage-outcome.ts";
import { statesReached } from "../history/states-reached.ts";
import { hostNotesOf } from "../history/time-doubts.ts";
import { invariantsFor } from "../invariants/catalogue.ts";
import { NO_SCHEDULE } from "../invariants/invariant.ts";
import { ofCutOffStage, openJudges } from "../invariants/judge-stage.ts";
import { replayedLogText, slowedReplayText } from "../report/replayed-log-text.ts";
import { REPOSITORY } from "../supervision/repository.ts";
import { countArrivals } from "../workload/arrivals.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import { type TenantReadings, viewOf } from "../workload/callers/view-of-target.ts";
import { STORIES } from "../workload/catalogue.ts";
import { profileDurationS, profilePeakPerS } from "../workload/load-profiles.ts";
import type { Story } from "../workload/story.ts";
import { sampleStage, stageHost, watchMachineUse } from "./machine-use.ts";
import { openObjectives } from "./objectives.ts";
import { capMissing, type PlannedLoad, plannedLoad } from "./planned-load.ts";
import { inHand } from "./play.ts";
import { onThisMachine, reachedClaims, skippedStage } from "./reached-claim.ts";
import { isIncidental, type LoadStage } from "./stage-plan.ts";
import { changesSeen, foreignCharges, type OwedChanges } from "./taints.ts";
import {
  heldNow,
  type Observed,
  observe,
  observedStage,
  readAllWitnesses,
  readTenants,
  statedFacts,
  watchLookups,
} from "./witnesses.ts";

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

export const stageMissing = (
  plan: LoadStage,
  can: FaultCapabilities,
  view: TargetView = viewOf(can.target),
): string[] => [
  ...storyOfPlan(plan).missing(view),
  ...disturbanceMissing(plan.disturbance, can),
  ...capMissing(plan, can.target),
];

const driverFor = async (context: RunContext, plan: LoadStage): Promise<Driver> => {
  if (plan.driver === "open-loop") return driveOpenLoop;
  if (plan.driver === "autocannon")
    return driveAutocannon(plan.ratePerS === undefined ? {} : { maxPerS: plan.ratePerS });
  return driveK6({
    k6Path: await context.tool("k6"),
    scenario: join(REPOSITORY, "scenarios", `${plan.story}.ts`),
    keepIn: dirname(context.folder.pathOf("k6/summary")),
  });
};

/** `seenAtDisturbance`: what the observers showed just before anything was done to the deployment. */
type Played = { driven: Driven; disturbed: Disturbed; faults: FaultLine[]; seenAtDisturbance?: Observed };

/** Changes of ours that observers have yet to show, by the budget that all stages of a deployment share. */
const owedChanges = new WeakMap<Deployment["budget"], OwedChanges>();

const play = async (
  context: RunContext,
  deployment: Deployment,
  plan: LoadStage,
  job: Drive["job"],
  onLine: (line: Line) => void,
): Promise<Played> => {
  const { disturbance } = plan;
  const pids: number[] = [];
  const recent = createRecentCalls();
  const faults: FaultLine[] = [];
  const keep = (line: Line): void => {
    onLine(line);
    context.line(line);
  };
  const ratePerS = profilePeakPerS(job.profile);
  const { recovery_deadline_ms: recoveryMs } = faultFacts(disturbance, ratePerS, deployment.target.limits);
  const errors =
    recoveryMs === undefined
      ? undefined
      : watchBesideFault(deployment.budget, recoveryMs, consequencesOf(disturbance).mayCause);
  let disturbed: Disturbed = { problems: [], notes: [] };
  let seenAtDisturbance: Observed | undefined;
  const disturbing = async (disturbance: Disturbance, loadOver: AbortSignal): Promise<void> => {
    seenAtDisturbance = (await observe(deployment)).values;
    const onLine = (line: FaultLine | MarkLine): void => {
      keep(line);
      if (line.type === "mark") return;
      faults.push(line);
      errors?.fault(line);
    };
    const signal = AbortSignal.any([context.signal, loadOver]);
    const about = { context, deployment, stage: plan.name, ratePerS, signal, recent, onLine, meets: plan.meets ?? [] };
    disturbed = await disturb(disturbance, about).catch(
      (error: Error): Disturbed => ({
        problems: [{ verdict: "inconclusive", reason: `the disturbance could not be carried out: ${error.message}` }],
        notes: [],
      }),
    );
  };
  const endSampling = sampleStage({
    stage: plan.name,
    apis: deployment.target.control?.api ?? [],
    pids,
    nowUs: context.nowUs,
    onSample: context.sample,
  });
  try {
    const driver = inHand(context.supervisor, `the ${plan.driver} driver`, await driverFor(context, plan));
    const driven = await driver(
      {
        job,
        secrets: deployment.secrets,
        budget: errors?.budget ?? deployment.budget,
        segments: plan.segments,
        onLine: (line) => {
          keep(line);
          recent.add(line);
          errors?.call(line);
        },
        onFold: plan.fold === true && disturbance === undefined ? keep : undefined,
        onProgress: (text) => context.events.progress(`${plan.name}: ${text}`),
        onSpawn: ({ pid }) => void (pid !== undefined && pids.push(pid)),
        signal: errors === undefined ? context.signal : AbortSignal.any([context.signal, errors.signal]),
      },
      disturbance === undefined ? undefined : (loadOver) => disturbing(disturbance, loadOver),
    );
    return { driven, disturbed, faults, seenAtDisturbance };
  } finally {
    endSampling();
  }
};

/** The offered rate counts the arrivals of the seed, not their expected number. */
const measured = (
  plan: LoadStage,
  measure: StageMeasure,
  { driven, job, durationMs }: { driven: Driven; job: Drive["job"]; durationMs: number },
) => {
  const { profile, arrivals, seed } = job;
  if (driven.scheduledMs === 0) return measure.end({ durationMs });
  const isWhole = plan.disturbance === undefined;
  const offered = countArrivals(profile, arrivals, seed);
  const wholeMs = profileDurationS(profile) * 1000;
  // The last arrival may come long before the end of the schedule, and a driver may be done with it then.
  const scheduledMs = measure.arrivals >= offered ? wholeMs : Math.min(driven.scheduledMs, wholeMs);
  return measure.end({
    durationMs,
    ...(isWhole ? { offeredRatePerS: offered / profileDurationS(profile), scheduledMs } : {}),
  });
};

/** Times of a closed loop begin when a call is sent, so they have a name of their own. */
const closedLoopFigures = (measurements: readonly Measurement[]): Measurement[] =>
  measurements.flatMap((one) => {
    if (!one.name.includes("_ms_")) return [one];
    return one.name.startsWith("latency_ms_") ? [{ ...one, name: `closed_loop_${one.name}` }] : [];
  });

/** Lines judged in one turn of the event loop: a stop signal must not wait. */
const TURN_LINES = 10_000;

const judged = async (
  plan: LoadStage,
  facts: StageFacts,
  ordered: Iterable<Line>,
  replay: string,
  states: FaultStates,
): Promise<Claim[]> => {
  const judges = openJudges(invariantsFor(plan.judges), facts);
  let n = 0;
  for (const line of ordered) {
    judges.see(line);
    states.see(line);
    if (++n % TURN_LINES === 0) await setImmediate();
  }
  return judges.claims(replay);
};

/** Behind a proxy the protocol shows only on the wire. */
const otherProtocol = (stated: Protocol = "h1", seen: readonly Protocol[]): Problem[] =>
  seen
    .filter((protocol) => protocol !== stated)
    .map((protocol) => ({
      verdict: "inconclusive",
      reason: `${HTTP_VERSIONS[protocol]} was agreed upon with the target, and transport.protocol is "${stated}"`,
    }));

const tainted = (reason: string): Problem => ({ verdict: "inconclusive", reason });

const NO_RATE = "a rate: `limits` state none and a ramp inside permits.load_max_rps met no limit";

export const playLoadStage = async (
  context: RunContext,
  deployment: Deployment,
  plan: LoadStage,
  onLine?: (line: Line) => void,
): Promise<StageOutcome> => {
  const { seed, replay, epochUs } = context;
  const { target } = deployment;
  const story = storyOfPlan(plan);
  const tenants = await readTenants(target);
  const readings = Object.fromEntries(
    Object.entries(tenants).map(([org, { used_at_start: used }]) => [org, used === undefined ? {} : { used }]),
  );
  const view = viewWith(deployment, readings);
  const refusal = closedLoopRefusal(plan, target);
  if (refusal !== null) throw new Error(refusal);
  const lacking = stageMissing(plan, capabilitiesOf(deployment), view);
  if (lacking.length > 0) return skippedStage(plan, deployment, lacking, replay);
  for (const org of story.noisy(view)) if (tenants[org] !== undefined) tenants[org].noisy = true;
  const planned = plannedFor(plan, deployment, view);
  if (planned === null) return skippedStage(plan, deployment, [NO_RATE], replay);
  const { profile, arrivals, reach, slowedTo } = planned;
  const slowed = slowedTo === undefined ? [] : [slowedReplayText(slowedTo)];
  for (const text of slowed) context.events.warning(`${plan.name}: ${text}`);
  const idRun = `${context.run}.${plan.name}`;
  const job: Drive["job"] = {
    stage: plan.name,
    idPrefix: `${idRun}.c`,
    story: plan.story,
    seed,
    profile,
    arrivals,
    target,
    view,
    epochUs,
    ...(deployment.reference ? { reference: true as const } : {}),
    ...(plan.precise === true ? { precise: true as const } : {}),
  };
  const before = await observe(deployment);
  const faulted = faultFacts(plan.disturbance, profilePeakPerS(profile), target.limits);
  const heldBefore = faulted.faults ? await heldNow(deployment) : null;
  const lookups = plan.tenants === "few" ? await watchLookups(context, target) : null;
  const startedMs = wallUs() / 1000;
  const began = performance.now();
  const recording = await context.record(plan.name, { fold: plan.fold === true, reference: deployment.reference });
  const measure = new StageMeasure(plan.name);
  const isClosedLoop = plan.driver === "autocannon";
  const objectives = plan.objectives === true ? openObjectives(target, plan.name) : null;
  const machineUse = watchMachineUse(target.base_url);
  const { driven, disturbed, faults, seenAtDisturbance } = await play(context, deployment, plan, job, (line) => {
    measure.see(line);
    objectives?.see(line);
    onLine?.(line);
  });
  const durationMs = performance.now() - began;
  const used = machineUse();
  const { summary, ...figures } = measured(plan, measure, { driven, job, durationMs });
  const measurements = isClosedLoop ? closedLoopFigures(figures.measurements) : figures.measurements;
  const host = stageHost(measure.lag, {
    driven,
    used,
    measurements,
    calibration: context.failedChecks(plan.driver),
  });
  const { others, ...witnesses } = await readAllWitnesses(deployment, idRun, startedMs, context.signal, heldBefore);
  const keyLookups = await lookups?.();
  const isCutOff = context.signal.aborted || stoppedBy(context) !== null;
  const facts: StageFacts = {
    ...statedFacts(plan.name, deployment),
    started_at_ms: epochUs / 1000,
    ...(isIncidental(plan) ? { incidental: true as const } : {}),
    ...(isClosedLoop ? { closed_loop: true as const } : {}),
    tenants,
    host,
    ...faulted,
    ...(heldBefore === null ? {} : { gauges_before: heldBefore }),
    ...(keyLookups === undefined ? {} : { key_lookups: keyLookups }),
    ...witnesses,
  };
  const after = await observe(deployment);
  const seen = observedStage(plan.name, after);
  const changes = changesSeen(
    {
      before: before.values,
      after: after.values,
      ...(seenAtDisturbance === undefined ? {} : { atDisturbance: seenAtDisturbance }),
    },
    owedChanges.get(deployment.budget),
    wallUs() / 1000,
  );
  if (changes.owed === undefined) owedChanges.delete(deployment.budget);
  else owedChanges.set(deployment.budget, changes.owed);
  const taints = [
    ...changes.taints,
    ...(deployment.embedded || !facts.drained
      ? []
      : foreignCharges(deployment, {
          before: tenants,
          after: await readTenants(target),
          ledger: facts.ledger,
          others,
        })),
  ];
  const { protocols = [] } = driven;
  const problems = [
    ...driven.problems,
    ...otherProtocol(target.transport?.protocol, protocols),
    ...disturbed.problems,
    ...taints.map(tainted),
  ]
    .filter(({ about }) => about !== "time")
    .map((problem) => onThisMachine(problem, host, target.limits?.limiter_budget_ms));
  const states = new FaultStates(facts);
  const judgements = await judged(plan, facts, await recording.lines(), replay, states);
  const met = plan.meets === undefined ? {} : { states: statesReached(states.times(facts), plan.meets) };
  const replayed = plan.replayed === undefined ? {} : { replayed: plan.replayed };
  const claims = [
    ...reachedClaims(plan, { problems, notes: disturbed.notes, reach, summary: { ...summary, ...met } }, replay),
    ...judgements,
    ...(objectives?.claims(replay, host, isClosedLoop ? NO_SCHEDULE : undefined) ?? []),
  ];
  return {
    summary: {
      ...summary,
      driver: plan.driver,
      ...(protocols.length === 0 ? {} : { protocols: [...protocols] }),
      ...met,
      ...replayed,
    },
    facts,
    claims: isCutOff ? claims.map(ofCutOffStage) : claims,
    measurements: [...measurements, ...seen.measurements],
    faults: faultRecords(faults),
    ...(disturbed.isLeftBroken === true ? { isLeftBroken: true } : {}),
    notes: [
      ...driven.notes,
      ...[
        ...(plan.replayed === undefined ? [] : replayedLogText(plan.replayed)),
        ...slowed,
        ...hostNotesOf(host),
        ...changes.notes,
      ].map((note) => `${plan.name}: ${note}`),
      ...seen.notes,
    ],
  };
};

/** Plays, drains and judges a stage; plays a level. Whatever throws, the load and everything beside it have ended on return. */
import { dirname, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { type Deployment, type RunContext, stoppedBy } from "../deployments/deployment.ts";
import { driveAutocannon } from "../drivers/autocannon/autocannon.ts";
import type { Drive, DriveJob, Driven, Driver } from "../drivers/driver.ts";
import { driveK6 } from "../drivers/k6/k6.ts";
import { driveOpenLoop } from "../drivers/open-loop/driver.ts";
import * as disturbances from "../faults/disturbance.ts";
import { breakBySchedule, injectBesideLoad } from "../faults/experiment.ts";
import { changeDeployment } from "../faults/injectors/operator.ts";
import { createRecentCalls } from "../faults/seen-by-callers.ts";
import { faultStates, statesReached } from "../history/fault-states.ts";
import type { CallLine, FaultLine, Line, MarkLine } from "../history/line.ts";
import { openObjectives } from "../history/objective-verdicts.ts";
import * as doc from "../history/run-document.ts";
import { type StageMeasure, stageMeasure } from "../history/tally.ts";
import { hostNotesOf } from "../history/time-doubts.ts";
import { invariantsFor } from "../invariants/catalogue.ts";
import { NO_SCHEDULE, ofCutOffStage, openJudges } from "../invariants/invariant.ts";
import { cutReplayText, replayedLogText, slowedReplayText } from "../report/replayed-log-text.ts";
import { curveLines } from "../report/shown-curve.ts";
import { openStageCurve } from "../shedding/stage-curve.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import type { Supervisor } from "../supervision/supervisor.ts";
import { clockSetUs, pause, wallUs } from "../supervision/waiting.ts";
import { lowestLevel, streamers } from "../workload/callers/overload.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import { storyCalled } from "../workload/catalogue.ts";
import { countArrivals, levelsBeyond, profileDurationS, profilePeakPerS } from "../workload/load-profiles.ts";
import { onThisMachine, reachedClaims, skippedStage } from "./stage-claims.ts";
import * as planning from "./stage-plan.ts";
import * as witnesses from "./witnesses.ts";

/** Registers processes to end and folders to remove if the runner cannot. */
export type Hands = Pick<Supervisor, "adopt" | "ownFolder">;

/** For use without a run: children end when the runner's pipe closes. */
export const NO_HANDS: Hands = { adopt: () => () => undefined, ownFolder: () => () => undefined };

/** `beside` runs during the load and ends the load when it resolves; its signal fires when the load is over. */
type DriverInHand = (drive: Drive, beside?: (loadOver: AbortSignal) => Promise<void>) => Promise<Driven>;

export const inHand =
  (hands: Hands, name: string, driver: Driver): DriverInHand =>
  async (drive, beside) => {
    using atEnd = new DisposableStack();
    const loadOver = new AbortController();
    let besideOver: Promise<void> = Promise.resolve();
    const begun = (): Promise<void> => {
      besideOver = beside?.(loadOver.signal) ?? besideOver;
      besideOver.catch(() => undefined);
      return besideOver;
    };
    const inHands: Drive = {
      ...drive,
      onSpawn: (child) => {
        drive.onSpawn?.(child);
        if (child.pid !== undefined) atEnd.defer(hands.adopt(name, child.pid));
      },
      onFolder: (path) => atEnd.defer(hands.ownFolder(`${drive.job.stage}: what ${name} is handed`, path)),
    };
    try {
      return await driver(inHands, beside === undefined ? undefined : begun);
    } finally {
      loadOver.abort();
      await besideOver;
    }
  };

export const scenarioOf = (story: string): string => join(REPOSITORY, "scenarios", `${story}.ts`);

const driverFor = async (context: RunContext, plan: planning.LoadStage): Promise<Driver> => {
  if (plan.driver === "open-loop") return driveOpenLoop;
  if (plan.driver === "autocannon") return driveAutocannon({ maxPerS: plan.ratePerS });
  return driveK6({
    k6Path: await context.tool("k6"),
    scenario: scenarioOf(plan.story),
    keepIn: dirname(context.folder.pathOf("k6/summary")),
  });
};

const disturb = (disturbance: disturbances.Disturbance, beside: disturbances.DisturbanceContext) => {
  if (disturbance.kind === "faults") return injectBesideLoad(disturbance, beside);
  if (disturbance.kind === "fault-schedule") return breakBySchedule(disturbance, beside);
  return changeDeployment(disturbance, beside);
};

type Playing = {
  onLine(line: Line): void;
  /** Awaited just before a disturbance acts on the deployment. */
  onDisturbance(): Promise<void>;
  driver?: Driver | undefined;
};

export const play = async (
  context: RunContext,
  deployment: Deployment,
  plan: planning.LoadStage,
  job: Drive["job"],
  { onLine: see, onDisturbance, driver: given }: Playing,
) => {
  const { disturbance, name: stage, requiredStates = [] } = plan;
  const pids: number[] = [];
  const recent = createRecentCalls();
  const faults: FaultLine[] = [];
  const keep = (line: Line): void => {
    see(line);
    context.line(line);
  };
  const ratePerS = profilePeakPerS(job.profile);
  const { recovery_deadline_ms: recoveryMs } = disturbances.faultFacts(disturbance, ratePerS, deployment.target.limits);
  const tolerated = disturbances.consequencesOf(disturbance).mayCause;
  const errors =
    recoveryMs === undefined ? undefined : disturbances.watchBesideFault(deployment.budget, recoveryMs, tolerated);
  let disturbed: disturbances.Disturbed = { problems: [], notes: [] };
  const disturbing = async (disturbance: disturbances.Disturbance, loadOver: AbortSignal): Promise<void> => {
    await onDisturbance();
    const onLine = (line: FaultLine | MarkLine): void => {
      keep(line);
      if (line.type === "mark") return;
      faults.push(line);
      errors?.fault(line);
    };
    const signal = AbortSignal.any([context.signal, loadOver]);
    const about = { context, deployment, stage, ratePerS, signal, recent, onLine, requiredStates };
    disturbed = await disturb(disturbance, about).catch((error: Error): disturbances.Disturbed => {
      const reason = `the disturbance could not be carried out: ${error.message}`;
      return { problems: [disturbances.inconclusive("fault-without-effect", reason)], notes: [] };
    });
  };
  using atEnd = new DisposableStack();
  atEnd.defer(witnesses.sampleStage(context, stage, deployment.target.control?.api ?? [], pids));
  const driver = inHand(context.supervisor, `the ${plan.driver} driver`, given ?? (await driverFor(context, plan)));
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
      onProgress: (text) => context.events.progress(`${stage}: ${text}`),
      onSpawn: ({ pid }) => void (pid !== undefined && pids.push(pid)),
      signal: errors === undefined ? context.signal : AbortSignal.any([context.signal, errors.signal]),
    },
    disturbance === undefined ? undefined : (loadOver) => disturbing(disturbance, loadOver),
  );
  return { driven, disturbed, faults };
};

export type LevelRoom = Pick<RunContext, "epochUs" | "signal" | "supervisor" | "line">;

const LOOK_EVERY_MS = 250;

/** Plays one rate or profile. `cutOffUs`: when it was cut off, in microseconds of the run; `null` if it was not. */
export const playLevel = async (
  { epochUs, signal, supervisor, line: write }: LevelRoom,
  { target, secrets, budget }: Pick<Deployment, "target" | "secrets" | "budget">,
  job: Omit<DriveJob, "target" | "epochUs">,
  /** Called four times a second with the lines so far; `true` cuts the level off. Times are of the run. */
  isClear?: (lines: readonly CallLine[], startUs: number, nowUs: number) => boolean,
): Promise<Driven & { lines: CallLine[]; cutOffUs: number | null }> => {
  const lines: CallLine[] = [];
  let startUs: number | null = null;
  let cutOffUs: number | null = null;
  const untilClear = async (loadOver: AbortSignal): Promise<void> => {
    while (!loadOver.aborted && cutOffUs === null) {
      await pause(LOOK_EVERY_MS, loadOver);
      const nowUs = wallUs() - epochUs;
      if (startUs !== null && isClear?.(lines, startUs, nowUs)) cutOffUs = nowUs;
    }
  };
  const driver = inHand(supervisor, "the open-loop driver", driveOpenLoop);
  const driven = await driver(
    {
      ...{ job: { ...job, target, epochUs }, secrets, budget, signal },
      onLine: (line) => {
        lines.push(line);
        write(line);
      },
      onStart: (us) => {
        startUs = us;
      },
    },
    isClear === undefined ? undefined : untilClear,
  );
  return { ...driven, lines, cutOffUs };
};

// A whole stage: its lines are read back from disk to be judged, so that memory stays bounded.

/** Ends the measurements. The offered rate counts the seed's arrivals, not their expected number. */
const measured = (
  plan: planning.LoadStage,
  measure: StageMeasure,
  { driven, job, durationMs }: { driven: Driven; job: Drive["job"]; durationMs: number },
) => {
  const { profile, arrivals, seed } = job;
  if (driven.scheduledMs === 0) return measure.end({ durationMs });
  const isWhole = plan.disturbance === undefined && plan.leavesOut !== true;
  const offered = countArrivals(profile, arrivals, seed);
  const wholeMs = profileDurationS(profile) * 1000;
  // A driver may end with the last arrival, long before the end of the schedule.
  const scheduledMs = measure.arrivals() >= offered ? wholeMs : Math.min(driven.scheduledMs, wholeMs);
  return measure.end({
    durationMs,
    ...(isWhole ? { offeredRatePerS: offered / profileDurationS(profile), scheduledMs } : {}),
  });
};

/** A closed loop measures from the moment of sending, so its times get names of their own. */
const closedLoopFigures = (measurements: readonly doc.Measurement[]): doc.Measurement[] =>
  measurements.flatMap((one) => {
    if (!one.name.includes("_ms_")) return [one];
    return one.name.startsWith("latency_ms_") ? [{ ...one, name: `closed_loop_${one.name}` }] : [];
  });

/** What judges of the curve or of a step need to know. Of the target file's `slo` only the objectives of chat apply. */
const shapeFacts = (
  { step: of, curve, ratePerS }: planning.LoadStage,
  offered: doc.Offered,
  view: TargetView,
  { target: { slo = {} }, found: { ramp } }: Deployment,
) => {
  const ofStreams = [slo.all, slo.chat, slo["chat.control"]].filter((text) => text !== undefined);
  const objectives = ofStreams.join(",") || undefined;
  const step = of && { of, objectives };
  if (curve !== true) return step ? { offered, step } : {};
  const { global_in_flight, slots = global_in_flight, org_in_flight: ofOrg = Number.POSITIVE_INFINITY } = view.limits;
  return {
    ...{ offered, step },
    curve: {
      not_played: levelsBeyond(offered, lowestLevel(view, ratePerS)),
      // Organizations may reach their own caps before all slots are busy.
      slots: slots === undefined ? undefined : Math.floor(Math.min(slots, ofOrg / streamers(view).shares.org)),
      ...{ objectives, ramp },
    },
  };
};

/** A smaller difference is ordinary drift of the clocks. */
const CLOCK_SET_LEAST_MS = 1_000;

/** Lines judged in one turn of the event loop, so that a stop signal need not wait. */
const TURN_LINES = 10_000;

export const playLoadStage = async (
  context: RunContext,
  deployment: Deployment,
  plan: planning.LoadStage,
  /** `driver` replaces the driver that the plan names. */
  { onLine, driver }: { onLine?: (line: Line) => void; driver?: Driver } = {},
): Promise<doc.StageOutcome> => {
  const { seed, replay, epochUs } = context;
  const { target } = deployment;
  const { name: stage } = plan;
  const story = storyCalled(plan.story);
  const tenants = await witnesses.readTenants(target);
  const readings = Object.fromEntries(Object.entries(tenants).map(([org, { used_at_start: used }]) => [org, { used }]));
  const view = planning.viewWith(deployment, readings);
  const lacking = planning.stageMissing(plan, deployment, view);
  const code = story.missing(view).length > 0 ? "role-missing" : "not-stated";
  if (lacking.length > 0) return skippedStage(plan, deployment, lacking, replay, code);
  for (const org of story.noisy(view)) if (tenants[org] !== undefined) tenants[org].noisy = true;
  const planned = planning.plannedFor(plan, deployment, view);
  if (planned === null) {
    const lacks = "a rate: `limits` state none and a ramp inside permits.load_max_rps met no limit";
    return skippedStage(plan, deployment, [lacks], replay, "not-stated");
  }
  const { profile, arrivals, reach, slowedTo } = planned;
  const slowed = slowedTo === undefined ? [] : [slowedReplayText(slowedTo)];
  for (const text of slowed) context.events.warning(`${stage}: ${text}`);
  const idRun = `${context.run}.${stage}`;
  const job: Drive["job"] = {
    ...{ stage, idPrefix: `${idRun}.c`, story: plan.story, seed, profile, arrivals, target, view, epochUs },
    reference: deployment.reference ? true : undefined,
    precise: plan.precise,
  };
  const faulted = disturbances.faultFacts(plan.disturbance, profilePeakPerS(profile), target.limits);
  const witness = await witnesses.openWitness(context, deployment, idRun, {
    ...{ tenants, isFaulted: faulted.faults, countsLookups: plan.tenants === "few" },
  });
  const [began, setUs] = [performance.now(), clockSetUs()];
  const readBack = await context.record(stage, { fold: plan.fold === true, reference: deployment.reference });
  const measure = stageMeasure(stage);
  const isClosedLoop = plan.driver === "autocannon";
  const objectives = plan.objectives === true ? openObjectives(target, stage) : null;
  const machineUse = witnesses.watchMachineUse(target.base_url);
  const slots = await witnesses.watchHeldSlots(deployment, context.nowUs());
  const see = (line: Line): void => {
    measure.see(line);
    slots.see(line);
    objectives?.see(line);
    onLine?.(line);
  };
  const how = { onLine: see, onDisturbance: witness.disturbed, driver };
  const { driven, disturbed, faults } = await play(context, deployment, plan, job, how);
  const durationMs = performance.now() - began;
  const used = machineUse();
  const setMs = (clockSetUs() - setUs) / 1000;
  const { summary, ...figures } = measured(plan, measure, { driven, job, durationMs });
  const measurements = isClosedLoop ? closedLoopFigures(figures.measurements) : figures.measurements;
  const calibration = context.failedChecks(plan.driver);
  const { seen, observed, interference } = await witness.end();
  slots.end(seen.drained === true);
  const idle = await witnesses.idleOtherCores(used, target.base_url, context.signal);
  const host = witnesses.stageHost(measure.lag, { driven, used: { ...used, ...idle }, measurements, calibration });
  const isCutOff = context.signal.aborted || stoppedBy(context) !== null || driven.isCutOff === true;
  const offered: doc.Offered = { start_us: driven.startUs ?? measure.firstDueUs(), pieces: profile.pieces };
  const facts: doc.StageFacts = {
    ...witnesses.statedFacts(stage, deployment),
    started_at_ms: (epochUs + setUs) / 1000,
    clock_set_ms: Math.abs(setMs) < CLOCK_SET_LEAST_MS ? undefined : setMs,
    incidental: planning.isIncidental(plan) ? true : undefined,
    closed_loop: isClosedLoop ? true : undefined,
    cut_off: isCutOff ? true : undefined,
    ...{ tenants, host, held_before: slots.before },
    ...faulted,
    ...shapeFacts(plan, offered, view, deployment),
    ...seen,
  };
  const { protocols = [] } = driven;
  const stated = target.transport?.protocol ?? "h1";
  const problems = [
    ...driven.problems,
    // Behind a proxy only the played calls show the protocol.
    ...protocols
      .filter((one) => one !== stated)
      .map((one) => `${doc.HTTP_VERSIONS[one]} was agreed upon with the target, and transport.protocol is "${stated}"`)
      .map((why) => disturbances.inconclusive("not-stated", why)),
    ...disturbed.problems,
    ...interference.taints.map((why) => disturbances.inconclusive("not-exclusive", why)),
  ]
    .filter(({ about }) => about !== "time")
    .map((problem) => onThisMachine(problem, host, target.limits?.limiter_budget_ms));
  const states = faultStates(facts.limits);
  const curve = openStageCurve(facts);
  const judges = openJudges(invariantsFor(plan.judges), facts);
  let judged = 0;
  for (const line of await readBack()) {
    judges.see(line);
    states.see(line);
    curve?.see(line);
    if (++judged % TURN_LINES === 0) await setImmediate();
  }
  const judgements = judges.claims(replay);
  const shedding = curve?.end(replay);
  if (shedding?.curve != null) {
    for (const line of curveLines(shedding.curve)) context.events.result(line);
    await context.folder.writeJson("curve.json", { ...shedding.curve, patient: shedding.curve.patient?.() ?? null });
  }
  const { measurements: ofShedding = [] } = shedding ?? {};
  // A measurement of the curve, which has an interval, replaces the stage's own of the same name.
  const ofStage = measurements.filter(({ name }) => !ofShedding.some((one) => one.name === name));
  const ofObservers = Object.entries(observed.values).map(([name, value]): doc.Measurement => {
    return { name: `observed_${name}`, stage, value, unit: "1", low: null, high: null, n: 1 };
  });
  const whole: doc.StageSummary = {
    ...{ ...summary, driver: plan.driver, protocols: protocols.length === 0 ? undefined : [...protocols] },
    states: plan.requiredStates && statesReached(states.times(facts), plan.requiredStates),
    replayed: plan.replayed,
  };
  const claims = [
    ...reachedClaims(plan, { problems, notes: disturbed.notes, reach, summary: whole }, replay),
    ...judgements,
    ...(shedding?.claims ?? []),
    ...(objectives?.claims(replay, host, isClosedLoop ? NO_SCHEDULE : undefined) ?? []),
  ];
  const cutTo = planning.callsOfCutLog(plan);
  const notes = [
    ...(plan.replayed === undefined ? [] : replayedLogText(plan.replayed)),
    ...(plan.replayed === undefined || cutTo === null ? [] : [cutReplayText(cutTo, plan.replayed)]),
    ...(facts.clock_set_ms === undefined
      ? []
      : [
          `this machine's clock was set ${setMs > 0 ? "ahead" : "back"} by ${Math.round(Math.abs(setMs) / 1000)} s meanwhile`,
        ]),
    ...[...slowed, ...hostNotesOf(host), ...interference.notes, ...observed.troubles],
  ];
  return {
    summary: whole,
    facts,
    claims: isCutOff ? claims.map(ofCutOffStage) : claims,
    measurements: [...ofStage, ...ofShedding, ...ofObservers],
    faults: disturbances.faultRecords(faults),
    isLeftBroken: disturbed.isLeftBroken,
    didNotRecover: problems.some(({ about, verdict }) => about === "recovery" && verdict === "fail"),
    notes: [...driven.notes, ...notes.map((note) => `${stage}: ${note}`)],
  };
};

/** What `chaos` plays: the experiments that are named or allowed, one by one, or random schedules of faults. */

import { addAbortListener } from "node:events";
import { type EmbeddedOptions, openDeployment, type RunContext, remoteProxy } from "../../deployments/deployment.ts";
import { whyNoWatchdog } from "../../deployments/remote-watch.ts";
import { faultRecords } from "../../faults/disturbance.ts";
import { disturbanceMissing } from "../../faults/experiment.ts";
import { EXPERIMENTS, type Experiment } from "../../faults/experiments.ts";
import type { Component } from "../../faults/fault.ts";
import { describeSchedule, durationS, type FaultSchedule } from "../../faults/fault-schedule.ts";
import { type Line, lineTimeUs } from "../../history/line.ts";
import { BROKEN, HELD, openBy } from "../../history/reason-codes.ts";
import * as doc from "../../history/run-document.ts";
import { INVARIANTS } from "../../invariants/catalogue.ts";
import { inOrder } from "../../invariants/invariant.ts";
import * as exploring from "../../simulation/search-schedules.ts";
import { type Player, startVirtualPlayer } from "../../simulation/virtual-player.ts";
import { playLoadStage } from "../../stages/play.ts";
import * as planning from "../../stages/stage-plan.ts";
import { called, UsageError } from "../../supervision/user-file.ts";
import type { Target } from "../../target/target.ts";
import { runStages } from "../bodies.ts";
import { type Asked, type RunResult, recordRun } from "../recorded-run.ts";
import { experimentStage, SHORT_EXPERIMENTS, SPARE_S } from "../suites/suites.ts";
import { requireWholeProxies } from "./left-open.ts";

const KEY = /^(limiter|keys|api|service|edge)\.([a-z0-9][a-z0-9-]*)$/;

/** The experiments that the target file's commands cause; a name of the catalogue keeps the catalogue's entry. */
const byCommands = ({ faults = {} }: Target): Experiment[] =>
  Object.keys(faults).flatMap((key) => {
    const [, component, fault] = KEY.exec(key) ?? [];
    if (component === undefined || fault === undefined) {
      throw new UsageError(
        `faults of the target file: expected names such as "limiter.refused" (limiter, keys, api, edge or service, a dot, a fault in small letters), but got "${key}"`,
      );
    }
    // Only stages of scenarios break the service.
    if (component === "service") return [];
    const own: Experiment = {
      name: `${component}-${fault}`,
      faults: [{ by: "commands", component: component as Component, fault }],
      refuses: "some",
      holds: "what is refused because of it is refused as the contract says, and what is admitted is charged once",
    };
    return EXPERIMENTS.get(own.name) ?? own;
  });

export const experimentsFor = (target: Target | null): ReadonlyMap<string, Experiment> =>
  new Map([...EXPERIMENTS, ...(target === null ? [] : byCommands(target)).map((one) => [one.name, one] as const)]);

/** What a target file has to state so that an experiment can be played on its deployment, beside the permission. */
export const lackedFor = (target: Target, { pastTheCap, ...experiment }: Experiment): string[] => {
  const can = { target: { ...target, permits: { chaos: true } }, faultsMissing: "" };
  const links = { faults: { links: target.toxiproxy?.proxies ?? {} } };
  const lacked = disturbanceMissing({ kind: "faults", holdMs: 0, ...experiment }, { ...can, ...links });
  const isCapless = pastTheCap === true && target.limits?.global_in_flight === undefined;
  return isCapless ? [...lacked, "`limits.global_in_flight`"] : lacked;
};

/** `names`: no name means all experiments that the deployment allows. */
type ChaosWish = { names: readonly string[]; short: boolean; limiter?: EmbeddedOptions["limiter"] };

/** Throws `UsageError` for an unknown name, for another store's experiment, or if nothing can be broken. */
export const chosenExperiments = (target: Target | null, wish: ChaosWish): readonly Experiment[] => {
  const { names, short, limiter = "sqlite" } = wish;
  const known = experimentsFor(target);
  const isOfStore = ({ store = limiter }: Experiment): boolean => target !== null || store === limiter;
  const named = [...new Set(names)].map((name): Experiment => {
    const experiment = called("experiment", name, known.values(), `there are:\n  ${[...known.keys()].join("\n  ")}`);
    if (isOfStore(experiment)) return experiment;
    const { store } = experiment;
    throw new UsageError(`${name} needs a limiter in ${store}: expected --limiter ${store}`);
  });
  if (named.length > 0) return named;
  // The embedded deployment allows all that its store allows, another one what it has proxies or commands for.
  const here = [...known.values()].filter((one) =>
    target === null ? isOfStore(one) : lackedFor(target, one).length === 0,
  );
  if (here.length === 0) {
    throw new UsageError(
      "the target file names no way to break a dependency: expected `toxiproxy` with `proxies` for limiter or keys, or `faults` with commands",
    );
  }
  const some = here.filter(({ name }) => SHORT_EXPERIMENTS.includes(name));
  return short && some.length > 0 ? some : here;
};

export const chaosStages = (wish: ChaosWish): planning.StagesWish => ({
  short: wish.short,
  stages: (given) =>
    chosenExperiments(given.embedded ? null : given.target, wish).map((entry) => experimentStage(given, entry)),
});

/** Says why no fault may be injected, beside the guard's reasons; applies on loopback too. */
export const chaosRefusals = (target: Target): string[] => {
  const remote = remoteProxy(target);
  const isPermitted = target.permits?.chaos === true;
  return [
    ...(isPermitted ? [] : ["faults would be injected and permits.chaos is not true in the target file"]),
    ...(remote === null ? [] : [remote]),
  ];
};

type ChaosRun = Asked & planning.DeploymentWish & EmbeddedOptions & ChaosWish;

const prepare = async (request: ChaosRun, targetFile: string): Promise<planning.PreparedTarget> => {
  const intent = planning.intentOf(chaosStages(request));
  const prepared = await planning.prepareTarget(targetFile, request.owned, intent, chaosRefusals);
  const { watchdog } = prepared.target;
  if (watchdog !== undefined) {
    const { url, token } = watchdog;
    const read = token === undefined ? null : await prepared.secrets.read(token, "watchdog.token");
    const missing = await whyNoWatchdog({ url, token: read });
    if (missing !== null) throw new planning.GuardError([missing]);
  }
  return prepared;
};

const isStillHit = ({ claims, summary, didNotRecover }: doc.StageOutcome): boolean =>
  didNotRecover === true || claims.some(({ id, verdict }) => verdict === "fail" && id === `recovers/${summary.name}`);

/** Throws for a user's mistake before anything begins: names, target file, guard, lock, a proxy that is not whole. */
export const runChaos = async (request: ChaosRun): Promise<RunResult> => {
  const { targetFile, replay } = request;
  const prepared = targetFile === undefined ? undefined : await prepare(request, targetFile);
  const chosen = chosenExperiments(prepared?.target ?? null, request);
  const broken = new Set(chosen.flatMap(({ faults }) => faults.map(({ component }) => component)));
  return runStages({
    ...{ ...request, profile: "chaos", stages: chaosStages(request), uncalibrated: true, prepared },
    checkTargets: async () => prepared && requireWholeProxies(prepared.target, broken),
    required: () => request.names.map((name) => `reached/${name}`),
    // A user's deployment that has not recovered is not broken further.
    isEnough: (context, deployment) => (outcome, left) => {
      if (left.length === 0 || deployment.embedded || !isStillHit(outcome)) return false;
      const why = `the deployment did not recover from ${outcome.summary.name}; ${left.length} further experiments were not begun: ${left.map(({ name }) => name).join(", ")}`;
      context.events.result(`  ${why}`);
      context.add({ claims: [doc.doubt("run/completed", "not-healed", why, "every experiment is played", replay)] });
      return true;
    },
  });
};

// `chaos --explore`: random schedules of faults, on virtual or real links; failing ones are shortened.

export type ExploreWish = {
  forMs: number;
  /** The most schedules; as many as the time allows if absent. */
  most?: number;
  links: exploring.LinksKind;
  /** The embedded deployment's store, on real links. */
  limiter: "sqlite" | "redis";
  /** Replaces the healthy platform on virtual links, to test the search itself. */
  mutant: string | null;
};

type ExploreRun = Asked & ExploreWish;

const STAGE = "explore";
const EXPECTED = "whatever breaks when, and for how long: every invariant holds during it and after the heal";
const SHRINK_TRIALS: Readonly<Record<exploring.LinksKind, number>> = { virtual: 200, real: 12 };

const ofStage = (claim: doc.Claim, stage: string): doc.Claim => {
  return { ...claim, id: claim.id.replace(/\/.*/, `/${stage}`), stage };
};

const openRealPlayer = async (context: RunContext, limiter: ExploreWish["limiter"]): Promise<Player> => {
  const deployment = await openDeployment(context, { limiter });
  let number = 0;
  const play = async (schedule: FaultSchedule): Promise<exploring.Trial> => {
    number += 1;
    const plan: planning.LoadStage = {
      ...{ kind: "load", name: `${STAGE}-${number}`, driver: "open-loop", arrivals: "poisson" },
      ...{ story: schedule.story, ratePerS: schedule.ratePerS, durationS: durationS(schedule) + SPARE_S },
      judges: INVARIANTS.map(({ id }) => id),
      disturbance: { kind: "fault-schedule", events: schedule.events },
    };
    const lines: Line[] = [];
    const onLine = (line: Line): void => void lines.push(line);
    const { claims, summary, facts } = await playLoadStage(context, deployment, plan, { onLine });
    // A claim that the stage was reached says whether it can be judged; it is no invariant.
    const isAbout = ({ id }: doc.Claim): boolean => id.startsWith("reached/");
    const failed = claims.filter((one) => !isAbout(one) && one.verdict === "fail" && one.level === "must");
    const doubts = claims.filter((one) => isAbout(one) && one.verdict !== "pass");
    return {
      failed: failed.map((claim) => ofStage(claim, STAGE)),
      byOutcome: summary.by_outcome,
      stage: summary.name,
      lines: inOrder(lines),
      facts,
      doubt: doubts.map(({ reason }) => reason).join("; ") || null,
    };
  };
  return { play, close: async () => undefined };
};

type ScheduleReplayed = Pick<doc.Claim, "reason" | "expected" | "got"> & { verdict: "fixed" | "failing" | "unclear" };

/** `record`: how to record a run on real links; a run on virtual links is not recorded. */
export const replayScheduleCrash = async (crash: exploring.ScheduleCrash, record: Asked): Promise<ScheduleReplayed> => {
  const replay = async ({ play }: Player): Promise<ScheduleReplayed> => {
    const replayed = await exploring.replaySchedule(play, crash.schedule, new Set(crash.failed.map(({ id }) => id)));
    const { failed, of, last } = replayed;
    const [claim] = last?.failed ?? [];
    return {
      verdict: exploring.isCertain(replayed) ? "failing" : failed === 0 ? "fixed" : "unclear",
      reason: `failed in ${failed} of ${of} replays`,
      expected: (claim ?? crash.failed[0])?.expected ?? "",
      got: claim === undefined ? "as expected" : `${claim.reason}: ${claim.got}`,
    };
  };
  if (crash.links === "virtual") {
    const player = startVirtualPlayer({ mutant: crash.mutant });
    return replay(player).finally(player.close);
  }
  const { came, document } = await recordRun({ ...record, profile: "replay", targets: [] }, async (context) =>
    replay(await openRealPlayer(context, crash.limiter ?? "sqlite")),
  );
  const why = document.claims.find(({ id }) => id === "run/completed")?.reason ?? "the run did not come to its end";
  return came ?? { verdict: "unclear", reason: why, expected: "a whole run", got: "none" };
};

const textOf = ({ failed, schedule, replayed, isFlaky, number }: exploring.Finding): string => {
  const broken = failed.map(({ id }) => id.replace(/\/.*/, "")).join(", ");
  const often = `${replayed.failed} of ${replayed.of} replays`;
  return isFlaky
    ? `schedule ${number} failed ${broken} once and then in ${often}, where ${exploring.OFTEN_ENOUGH} are needed: flaky (${describeSchedule(schedule)})`
    : `schedule ${number} fails ${broken} in ${often}; at its shortest: ${describeSchedule(schedule)}`;
};

const searchedClaim = ({ schedules, doubtful, events, findings }: exploring.Searched, replay: string): doc.Claim => {
  const doubts = doubtful === 0 ? "" : `, ${doubtful} of them in doubt because of the load's generator`;
  const isFailed = findings.some(({ isFlaky }) => !isFlaky);
  const isDoubtful = findings.length > 0 || schedules === 0 || doubtful * 2 > schedules;
  const code = findings.length > 0 ? "ambiguous" : schedules === 0 ? "too-few-calls" : "generator-was-the-limit";
  const ruling = isFailed ? BROKEN : isDoubtful ? openBy(code) : HELD;
  const found = findings.length === 0 ? "nothing failed in any of them" : findings.map(textOf).join("; ");
  return doc.claimOf({
    ...{ id: `schedules/${STAGE}`, stage: STAGE, expected: EXPECTED, replay, ...ruling },
    reason: `${schedules} schedules with ${events} faults were played${doubts}; ${found}`,
    got: ruling.verdict === "pass" ? "as expected" : found,
  });
};

const search = async (context: RunContext, request: ExploreRun, player: Player): Promise<void> => {
  const { seed, events, folder, signal } = context;
  const { links, limiter, mutant, most = Number.POSITIVE_INFINITY } = request;
  const driver = links === "real" ? "open-loop" : "virtual";
  const began = performance.now();
  const untilMs = began + request.forMs;
  let files = 0;
  const searched = await exploring.searchSchedules({
    seed,
    play: player.play,
    shrinkTrials: SHRINK_TRIALS[links],
    repeatsItself: links === "virtual",
    progress: events.progress,
    goesOn: (schedules) => !signal.aborted && schedules < most && performance.now() < untilMs,
    found: async (finding) => {
      files += 1;
      const name = `crashes/explore-${files}.json`;
      const crash = exploring.scheduleCrashOf(finding, { seed, links, limiter, mutant, file: folder.pathOf(name) });
      await folder.writeJson(name, crash);
      events.result(`  ${finding.isFlaky ? "flaky" : "fails"}: ${crash.title}\n    ${crash.replay}`);
      if (finding.isFlaky) return;
      // The shortest failing schedule becomes a stage, to be judged again; on real links the history has its lines.
      const { failed, byOutcome, ...trial } = finding.trial;
      const stage = links === "real" ? trial.stage : `${STAGE}-${files}`;
      const lines = trial.lines.map((line): Line => ({ ...line, stage }));
      if (links === "virtual") for (const line of lines) context.line(line);
      const { texts: _, ...facts } = trial.facts;
      const [first, last] = [lines[0], lines.at(-1)];
      const spanUs = first === undefined || last === undefined ? 0 : lineTimeUs(last) - lineTimeUs(first);
      await context.addStage(
        doc.stageOutcome({
          summary: doc.countedSummary(stage, driver, Math.round(spanUs / 1000), byOutcome),
          facts: { ...facts, stage },
          claims: failed.map((claim) => ({ ...ofStage(claim, stage), replay: crash.replay })),
          faults: faultRecords(lines.filter((line) => line.type === "fault")),
        }),
      );
    },
  });
  const claim = searchedClaim(searched, context.replay);
  events.result(`  ${claim.reason}`);
  await context.addStage(
    doc.stageOutcome({
      summary: doc.countedSummary(STAGE, driver, Math.round(performance.now() - began), searched.byOutcome),
      claims: [claim],
      facts: { ...doc.bareFacts(STAGE), exclusive: true, shedding: "fixed", faults: true, drained: true },
    }),
  );
};

export const runExplore = (request: ExploreRun): Promise<RunResult> =>
  recordRun({ ...request, profile: "explore", targets: [] }, async (context) => {
    const { links, limiter, mutant } = request;
    const isVirtual = links === "virtual";
    context.events.step(isVirtual ? "searching in virtual time, on links in this process" : "searching on real links");
    const player = isVirtual ? startVirtualPlayer({ mutant }) : await openRealPlayer(context, limiter);
    using _stop = addAbortListener(context.signal, () => void player.close());
    await search(context, request, player).finally(player.close);
  });

/** Injects faults beside a running load, whose lines show steady state and recovery. */
import { readGauges } from "../client/control-planes.ts";
import type { Problem } from "../drivers/driver.ts";
import { pause, waitUntil } from "../supervision/waiting.ts";
import { type DisturbanceContext, type Disturbed, type Faults, inconclusive, lostWatch } from "./disturbance.ts";
import { type ExperimentSteps, type Outcome, runExperiment } from "./experiment.ts";
import type { FaultInjector } from "./injectors/injector.ts";
import { injectorFor } from "./injectors/injector-for.ts";
import { type Pace, paceOf } from "./pace.ts";
import { type CallsSeen, ENOUGH_TO_SHOW, isBack, isSilent, isSteady, showsFault } from "./seen-by-callers.ts";

/** Only the newest calls, so that the first ones after the injection do not hide the effect. */
const EFFECT_CALLS = 2 * ENOUGH_TO_SHOW;
/** k6 compiles a script slowly on a busy machine. */
const FIRST_CALL_MS = 30_000;
const ENOUGH_SEEN = 15;
const ENOUGH_STREAMS = 2;

type Moments = { beganUs: number; askedUs: number; injectedUs: number; healedUs: number };

/** Whether the fault meets the required states. Streams end within a moment, so they are waited for. */
const isMet = async ({ requiredStates, deployment }: DisturbanceContext): Promise<boolean> => {
  const apis = deployment.target.control?.api ?? [];
  if (!deployment.reference || !requiredStates.includes("streams-open") || apis.length === 0) return true;
  return (await readGauges(apis)).reduce((sum, { open_streams = 0 }) => sum + open_streams, 0) >= ENOUGH_STREAMS;
};

const stepsOf = (
  { faults }: Faults,
  injector: FaultInjector,
  beside: DisturbanceContext,
  moments: Moments,
  pace: Pace,
) => {
  const { recent, ratePerS, context } = beside;
  let before: CallsSeen = { calls: 0, through: 0, latencyMsP50: 0, tookMsP50: 0 };
  /** Whether callers noticed the fault before it was healed. */
  let hitCallers: boolean | undefined;
  const showsToCallers = (): boolean => {
    const sinceS = (context.nowUs() - moments.askedUs) / 1_000_000;
    return (
      showsFault(before, recent.newest(moments.askedUs, EFFECT_CALLS)) ||
      isSilent(recent.newest(moments.askedUs), sinceS, ratePerS)
    );
  };
  const steps: ExperimentSteps = {
    inject: injector.inject,
    heal: (signal) => {
      hitCallers ??= showsToCallers();
      return injector.heal(signal);
    },
    isSteady: async () => {
      if (!isSteady(recent.newest(moments.beganUs, pace.steadyCalls), pace.steadyCalls)) return false;
      before = recent.newest(moments.beganUs);
      return isMet(beside);
    },
    showsEffect: async () => (injector.shows === null ? showsToCallers() : injector.shows()),
    hasRecovered: async () => isBack(before, recent.newest(moments.healedUs, pace.backCalls), pace.backCalls),
  };
  // While the API is up, callers are answered. On a stalled machine a fault's time may pass without a call.
  if (faults.every(({ component }) => component === "limiter" || component === "keys")) {
    steps.isSeenEnough = async () => recent.newest(moments.injectedUs, ENOUGH_SEEN).calls >= ENOUGH_SEEN;
  }
  return { steps, wasUnseen: () => injector.shows !== null && hitCallers === false };
};

/** The two explanations look the same from outside. */
const UNSEEN = "callers saw nothing of it: they are admitted without the dependency, or the proxy is not on their way";

const NO_EFFECT = {
  link: "the fault took no effect",
  callers:
    "the fault took no effect that callers see: it was not injected, it is not on the way of these calls, or calls are admitted without it",
};

const NO_RECOVERY: Problem = { verdict: "fail", reason: "no recovery by the deadline", about: "recovery" };

const problemsOf = (outcome: Outcome, injector: FaultInjector, wasStopped: boolean): Problem[] => {
  const doubts: string[] = [];
  if (outcome.stopped && !wasStopped) doubts.push("the load ended before the experiment did");
  else if (!outcome.steady) doubts.push("no steady state before the fault");
  else if (!outcome.tookEffect) doubts.push(injector.shows === null ? NO_EFFECT.callers : NO_EFFECT.link);
  if (!outcome.healed) doubts.push("the fault could not be healed");
  const problems = doubts.map(inconclusive);
  return outcome.recovered === false ? [...problems, NO_RECOVERY] : problems;
};

/** Resolves when the load has run long enough after the heal. */
export const injectBesideLoad = async (broken: Faults, beside: DisturbanceContext): Promise<Disturbed> => {
  const { context, deployment, stage, onLine, signal } = beside;
  const { name, faults } = broken;
  const pace = paceOf(broken, beside.ratePerS, deployment.target.limits);
  const injector = await injectorFor(broken, beside);
  // A slow start of the driver does not make the deployment unsteady.
  const isUnderWay = async (): Promise<boolean> => beside.recent.newest(0).calls > 0;
  await waitUntil(isUnderWay, { forMs: FIRST_CALL_MS, pollMs: 20, signal });
  await pause(broken.calmMs ?? 0, signal);
  const never = Number.POSITIVE_INFINITY;
  const moments: Moments = { beganUs: context.nowUs(), askedUs: never, injectedUs: never, healedUs: never };
  const { steps, wasUnseen } = stepsOf(broken, injector, beside, moments, pace);
  const { outcome } = await runExperiment(
    {
      ...injector,
      ...pace,
      stage,
      steps,
      experiment: name,
      link: faults.map(({ component }) => component).join("+"),
      fault: faults.map(({ fault }) => fault).join("+"),
    },
    {
      nowUs: context.nowUs,
      journal: context.journal,
      signal,
      keepUndo: (what, undo) => context.supervisor.registerUndo(what, undo),
      onLine: (line) => {
        if (line.phase === "injecting") moments.askedUs = line.at_us;
        if (line.phase === "injected") moments.injectedUs = line.at_us;
        if (line.phase === "healed") moments.healedUs = line.at_us;
        // Judges look at each dependency separately.
        for (const { component, fault } of faults) onLine({ ...line, link: component, fault });
      },
    },
  );
  const leftMs = (moments.healedUs - context.nowUs()) / 1000 + pace.recoveryMs + pace.afterMs;
  if (Number.isFinite(leftMs) && leftMs > 0) await pause(leftMs, signal);
  return {
    problems: [...problemsOf(outcome, injector, context.signal.aborted), ...lostWatch(deployment)],
    notes: [...injector.notes, ...outcome.notes, ...(outcome.tookEffect && wasUnseen() ? [UNSEEN] : [])],
    isLeftBroken: !outcome.healed,
  };
};

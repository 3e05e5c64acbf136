/**
 * Plays one experiment beside a running load: steady state, fault, effect, hold, heal, read back, recovery. The load's
 * own calls show steady state and recovery. The fault and its undo are journalled before the injection (write-ahead),
 * and every path heals. A probe through the link has to show the fault: an accepted request proves nothing.
 */
import { readGauges } from "../client/control-planes.ts";
import type { Problem } from "../drivers/driver.ts";
import type { FaultLine } from "../history/line.ts";
import type { Supervisor } from "../supervision/supervisor.ts";
import { pause, waitUntil } from "../supervision/waiting.ts";
import { injectorFor } from "./capabilities.ts";
import {
  type DisturbanceContext,
  type Disturbed,
  type Faults,
  inconclusive,
  lostWatch,
  paceOf,
} from "./disturbance.ts";
import type { FaultInjector } from "./injectors/injector.ts";
import { type CallsSeen, ENOUGH_TO_SHOW, isBack, isSilent, isSteady, showsFault } from "./seen-by-callers.ts";

/** A check that is polled until it is true or its time is over. A throw counts as false and leaves a note. */
type Look = (signal: AbortSignal) => Promise<boolean>;

/** States what is broken, how, what shows the effect, and the time limit of each part. */
export type ExperimentPlan = Pick<FaultLine, "stage" | "experiment" | "link" | "fault" | "stream"> &
  Pick<FaultInjector, "inject" | "heal" | "undo"> &
  Record<"steadyMs" | "injectMs" | "effectMs" | "holdMs" | "healMs" | "recoveryMs", number> &
  Record<"isSteady" | "showsEffect" | "hasRecovered", Look> & {
    /** Reports whether enough calls met the fault; polled after `holdMs` for up to twice as long. */
    isSeenEnough?: Look | undefined;
    pollMs?: number;
  };

type Surroundings = {
  nowUs: () => number;
  supervisor: Pick<Supervisor, "begin">;
  /** Fires on a stop: the fault is healed at once, and recovery is not waited for. */
  signal: AbortSignal;
  onLine: (line: FaultLine) => void;
};

/** Rejects only if the fault cannot be journalled; nothing is broken then. */
export const runExperiment = async (
  { pollMs = 20, ...plan }: ExperimentPlan,
  { nowUs, supervisor, signal, onLine }: Surroundings,
) => {
  const { stage, experiment, link, fault, stream } = plan;
  const notes: string[] = [];
  const outcome = {
    steady: false,
    /** False also if nothing was injected. */
    tookEffect: false,
    /** Read back as whole, or never broken. False means a failed cleanup, not a failed target. */
    healed: true,
    /** `null`: not observed (stopped, never steady, or not healed). */
    recovered: null as boolean | null,
    stopped: false,
    notes,
  };
  const say = (phase: FaultLine["phase"], effect?: { took_effect: boolean }): void =>
    onLine({ type: "fault", stage, experiment, link, fault, stream, phase, at_us: nowUs(), ...effect });
  const look = async (what: string, step: Look, forMs: number): Promise<boolean> => {
    const { met, lastError } = await waitUntil(step, { forMs, pollMs, signal });
    if (!met && !signal.aborted)
      notes.push(`${what} within ${forMs} ms: no${lastError === null ? "" : ` (${lastError})`}`);
    return met;
  };
  const breakAndHeal = async (): Promise<void> => {
    const held = supervisor.begin(
      { kind: "fault", name: `${link}.${fault}`, undo: plan.undo },
      `heal ${link}.${fault}`,
      async () => {
        // The run's signal is not used, because a stop must not cut the heal off.
        const did = (await plan.heal(AbortSignal.timeout(plan.healMs))) ?? [];
        if (did.length > 0) notes.push(`healing took: ${did.join(", ")}`);
        return did.join(", ");
      },
    );
    try {
      say("injecting");
      await plan.inject(AbortSignal.any([signal, AbortSignal.timeout(plan.injectMs)]));
      held.done();
      outcome.tookEffect = await look("effect seen through the link", plan.showsEffect, plan.effectMs);
      say("injected", { took_effect: outcome.tookEffect });
      if (!outcome.tookEffect) return;
      const { isSeenEnough, holdMs } = plan;
      await pause(holdMs, signal);
      if (isSeenEnough !== undefined) await waitUntil(isSeenEnough, { forMs: 2 * holdMs, pollMs, signal });
    } catch (error) {
      notes.push(`inject: ${(error as Error).message}`);
      say("injected", { took_effect: false });
    } finally {
      say("healing");
      try {
        await held.takeBack();
        say("healed");
      } catch (error) {
        outcome.healed = false;
        notes.push(`not healed: ${(error as Error).message}`);
      }
    }
  };

  outcome.steady = await look("steady state", plan.isSteady, plan.steadyMs);
  if (outcome.steady && !signal.aborted) {
    await breakAndHeal();
    if (outcome.healed && !signal.aborted)
      outcome.recovered = await look("recovery", plan.hasRecovered, plan.recoveryMs);
  }
  if (signal.aborted) {
    Object.assign(outcome, { stopped: true, recovered: null });
    notes.push("stopped before the end");
  }
  return outcome;
};

type Outcome = Awaited<ReturnType<typeof runExperiment>>;

/** How many of the newest calls are judged: the first ones after the injection must not hide the effect. */
const EFFECT_CALLS = 2 * ENOUGH_TO_SHOW;
/** How long to wait for the first call: k6 compiles a script slowly on a busy machine. */
const FIRST_CALL_MS = 30_000;
const ENOUGH_SEEN = 15;
const ENOUGH_STREAMS = 2;

/** Reports whether enough streams are open, if they are required. Streams end quickly, so this is polled. */
const isMet = async ({ requiredStates, deployment }: DisturbanceContext): Promise<boolean> => {
  const apis = deployment.target.control?.api ?? [];
  if (!deployment.reference || !requiredStates.includes("streams-open") || apis.length === 0) return true;
  return (await readGauges(apis)).reduce((sum, { open_streams = 0 }) => sum + open_streams, 0) >= ENOUGH_STREAMS;
};

/** The two explanations look the same from outside. */
const UNSEEN = "callers saw nothing of it: they are admitted without the dependency, or the proxy is not on their way";

const NO_EFFECT = {
  link: "the fault took no effect",
  callers:
    "the fault took no effect that callers see: it was not injected, it is not on the way of these calls, or calls are admitted without it",
};

const NO_RECOVERY: Problem = { verdict: "fail", reason: "no recovery by the deadline", about: "recovery" };

const problemsOf = (outcome: Outcome, { shows }: FaultInjector, wasStopped: boolean): Problem[] => {
  const doubts: string[] = [];
  if (outcome.stopped && !wasStopped) doubts.push("the load ended before the experiment did");
  else if (!outcome.steady) doubts.push("no steady state before the fault");
  else if (!outcome.tookEffect) doubts.push(shows === null ? NO_EFFECT.callers : NO_EFFECT.link);
  if (!outcome.healed) doubts.push("the fault could not be healed");
  return [...doubts.map(inconclusive), ...(outcome.recovered === false ? [NO_RECOVERY] : [])];
};

/** Injects faults beside a load and heals them. Resolves when the load has run long enough after the heal. */
export const injectBesideLoad = async (broken: Faults, beside: DisturbanceContext): Promise<Disturbed> => {
  const { context, deployment, stage, onLine, signal, recent, ratePerS } = beside;
  const { nowUs } = context;
  const { name, faults } = broken;
  const pace = paceOf(broken, ratePerS, deployment.target.limits);
  const injector = await injectorFor(broken, beside);
  // A slow start of the driver does not make the deployment unsteady.
  await waitUntil(async () => recent.newest(0).calls > 0, { forMs: FIRST_CALL_MS, pollMs: 20, signal });
  await pause(broken.calmMs ?? 0, signal);
  const beganUs = nowUs();
  const never = Number.POSITIVE_INFINITY;
  const at: Record<FaultLine["phase"], number> = { injecting: never, injected: never, healing: never, healed: never };
  let before: CallsSeen = { calls: 0, through: 0, latencyMsP50: 0, tookMsP50: 0 };
  /** Whether callers noticed the fault before it was healed. */
  let hitCallers = false;
  const showsToCallers = (): boolean =>
    showsFault(before, recent.newest(at.injecting, EFFECT_CALLS)) ||
    isSilent(recent.newest(at.injecting), (nowUs() - at.injecting) / 1_000_000, ratePerS);
  const outcome = await runExperiment(
    {
      ...injector,
      ...pace,
      ...{ stage, experiment: name },
      link: faults.map(({ component }) => component).join("+"),
      fault: faults.map(({ fault }) => fault).join("+"),
      isSteady: async () => {
        if (!isSteady(recent.newest(beganUs, pace.steadyCalls), pace.steadyCalls)) return false;
        before = recent.newest(beganUs);
        return isMet(beside);
      },
      showsEffect: injector.shows ?? (async () => showsToCallers()),
      // On a stalled machine the hold may pass without a call. No call is waited for if the API itself is broken.
      isSeenEnough: faults.every(({ component }) => component === "limiter" || component === "keys")
        ? async () => recent.newest(at.injected, ENOUGH_SEEN).calls >= ENOUGH_SEEN
        : undefined,
      hasRecovered: async () => isBack(before, recent.newest(at.healed, pace.backCalls), pace.backCalls),
    },
    {
      ...{ nowUs, supervisor: context.supervisor, signal },
      onLine: (line) => {
        at[line.phase] = line.at_us;
        if (line.phase === "healing") hitCallers = showsToCallers();
        // One line per dependency, because judges look at each separately.
        for (const { component, fault } of faults) onLine({ ...line, link: component, fault });
      },
    },
  );
  const leftMs = (at.healed - nowUs()) / 1000 + pace.recoveryMs + pace.afterMs;
  if (Number.isFinite(leftMs) && leftMs > 0) await pause(leftMs, signal);
  const isUnseen = outcome.tookEffect && injector.shows !== null && !hitCallers;
  return {
    problems: [...problemsOf(outcome, injector, context.signal.aborted), ...lostWatch(deployment)],
    notes: [...injector.notes, ...outcome.notes, ...(isUnseen ? [UNSEEN] : [])],
    isLeftBroken: !outcome.healed,
  };
};

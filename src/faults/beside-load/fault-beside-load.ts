/** A fault beside a running load: the load's own lines show what is steady and what has recovered. */

import { readGauges } from "../../client/control-planes.ts";
import type { Problem } from "../../drivers/driver.ts";
import type { FaultLine } from "../../history/line.ts";
import type { FaultRecord } from "../../history/run-document.ts";
import { pause, waitUntil } from "../../supervision/waiting.ts";
import { type ExperimentSteps, type Outcome, runExperiment } from "../experiment.ts";
import type { Breaker } from "./breaker.ts";
import { breakerFor } from "./breaker-for.ts";
import { ENOUGH_TO_SHOW, isBack, isSilent, isSteady, showsFault } from "./callers-side.ts";
import { type DisturbanceContext, type Disturbed, type Fault, partsOf } from "./disturbance.ts";
import { type Pace, paceOf } from "./pace.ts";
import type { CallsSeen } from "./recent-calls.ts";

/** Calls that are looked at for an effect: the newest, so that the first ones after the fault do not hide it. */
const EFFECT_CALLS = 2 * ENOUGH_TO_SHOW;

/** On a busy machine k6 takes its time to compile a script. */
const FIRST_CALL_MS = 30_000;

type Moments = {
  beganUs: number;
  askedUs: number;
  injectedUs: number;
  healedUs: number;
  /** Whether callers saw anything of the fault until it was healed. */
  hitCallers?: boolean;
};

/** Calls that judges want to see while it is in. */
const ENOUGH_SEEN = 15;

/** Callers are answered while it is in: what is broken is behind the API, which is there. */
const isAnswered = (fault: Fault): boolean => partsOf(fault).every(({ link }) => link === "limiter" || link === "keys");

const ENOUGH_STREAMS = 2;

/** Whether what the fault has to meet is there: streams come and go within a moment, so they are waited for. */
const isMet = async ({ meets, deployment }: DisturbanceContext): Promise<boolean> => {
  const apis = deployment.target.control?.api ?? [];
  if (!deployment.reference || !meets.includes("streams-open") || apis.length === 0) return true;
  return (await readGauges(apis)).reduce((sum, { open_streams = 0 }) => sum + open_streams, 0) >= ENOUGH_STREAMS;
};

const stepsOf = (
  fault: Fault,
  breaker: Breaker,
  beside: DisturbanceContext,
  moments: Moments,
  pace: Pace,
): ExperimentSteps => {
  const { recent, ratePerS, context } = beside;
  /** What callers see of it, where it cannot be seen itself. */
  const showsToCallers = (): boolean => {
    const sinceS = (context.nowUs() - moments.askedUs) / 1_000_000;
    return (
      showsFault(before, recent.newest(moments.askedUs, EFFECT_CALLS)) ||
      isSilent(recent.newest(moments.askedUs), sinceS, ratePerS)
    );
  };
  let before: CallsSeen = { calls: 0, through: 0, latencyMsP50: 0, tookMsP50: 0 };
  return {
    inject: breaker.inject,
    heal: (signal) => {
      moments.hitCallers ??= showsToCallers();
      return breaker.heal(signal);
    },
    isSteady: async () => {
      if (!isSteady(recent.newest(moments.beganUs, pace.steadyCalls), pace.steadyCalls)) return false;
      before = recent.newest(moments.beganUs);
      return isMet(beside);
    },
    showsEffect: async () => (breaker.showsAtPart === null ? showsToCallers() : await breaker.showsAtPart()),
    // On a machine that stands still for seconds, the time of a fault may pass without a call.
    ...(isAnswered(fault)
      ? { isSeenEnough: async () => recent.newest(moments.injectedUs, ENOUGH_SEEN).calls >= ENOUGH_SEEN }
      : {}),
    hasRecovered: async () => isBack(before, recent.newest(moments.healedUs, pace.backCalls), pace.backCalls),
  };
};

/** Both look the same from outside, and a reader has to know of the second. */
const UNSEEN = "callers saw nothing of it: they are admitted without the dependency, or the proxy is not on their way";

const NO_EFFECT = {
  link: "the fault took no effect",
  callers:
    "the fault took no effect that callers see: it was not injected, it is not on the way of these calls, or calls are admitted without it",
};

const problemsOf = (outcome: Outcome, breaker: Breaker, wasStopped: boolean): Problem[] => {
  const problems: Problem[] = [];
  const doubt = (reason: string): void => void problems.push({ verdict: "inconclusive", reason });
  if (outcome.stopped && !wasStopped) doubt("the load ended before the experiment did");
  else if (!outcome.steady) doubt("no steady state before the fault");
  else if (!outcome.tookEffect) doubt(breaker.showsAtPart === null ? NO_EFFECT.callers : NO_EFFECT.link);
  if (!outcome.healed) doubt("the fault could not be healed");
  if (outcome.recovered === false) {
    problems.push({ verdict: "fail", reason: "no recovery by the deadline", about: "recovery" });
  }
  return problems;
};

/** Returns when the load has run long enough after the heal. */
export const injectBesideLoad = async (fault: Fault, beside: DisturbanceContext): Promise<Disturbed> => {
  const { context, deployment, stage, onLine, signal } = beside;
  const pace = paceOf(fault, beside.ratePerS, deployment.target.limits);
  const breaker = await breakerFor(fault, beside);
  const parts = partsOf(fault);
  // A driver that is slow to start is no deployment that is not steady.
  const isUnderWay = async (): Promise<boolean> => beside.recent.newest(0).calls > 0;
  await waitUntil(isUnderWay, { forMs: FIRST_CALL_MS, pollMs: 20, signal });
  const moments: Moments = {
    beganUs: context.nowUs(),
    askedUs: Number.POSITIVE_INFINITY,
    injectedUs: Number.POSITIVE_INFINITY,
    healedUs: Number.POSITIVE_INFINITY,
  };
  const { outcome } = await runExperiment(
    {
      stage,
      experiment: fault.name,
      stream: breaker.stream,
      undo: breaker.undo,
      link: parts.map(({ link }) => link).join("+"),
      fault: parts.map((part) => part.fault).join("+"),
      steps: stepsOf(fault, breaker, beside, moments, pace),
      injectMs: breaker.injectMs,
      effectMs: breaker.effectMs,
      healMs: breaker.healMs,
      steadyMs: pace.steadyMs,
      holdMs: pace.holdMs,
      recoveryMs: pace.recoveryMs,
    },
    {
      nowUs: context.nowUs,
      journal: context.journal,
      signal,
      keepUndo: (name, undo) => context.supervisor.registerUndo(name, undo),
      onLine: (line) => {
        if (line.phase === "injecting") moments.askedUs = line.at_us;
        if (line.phase === "injected") moments.injectedUs = line.at_us;
        if (line.phase === "healed") moments.healedUs = line.at_us;
        // Judges look at each dependency by itself.
        for (const part of parts) onLine({ ...line, link: part.link, fault: part.fault });
      },
    },
  );
  const leftMs = (moments.healedUs - context.nowUs()) / 1000 + pace.recoveryMs + pace.afterMs;
  if (Number.isFinite(leftMs) && leftMs > 0) await pause(leftMs, signal);
  const lost = deployment.remoteWatch?.lost() ?? null;
  const isUnseen = outcome.tookEffect && breaker.showsAtPart !== null && moments.hitCallers === false;
  return {
    problems: [
      ...problemsOf(outcome, breaker, context.signal.aborted),
      ...(lost === null ? [] : [{ verdict: "inconclusive" as const, reason: lost }]),
    ],
    notes: [...breaker.notes, ...outcome.notes, ...(isUnseen ? [UNSEEN] : [])],
    ...(outcome.healed ? {} : { isLeftBroken: true }),
  };
};

/** The faults of a stage as the run document reports them. */
export const faultRecords = (lines: readonly FaultLine[]): FaultRecord[] => {
  const records: FaultRecord[] = [];
  for (const line of lines) {
    const { experiment, link, fault, stream } = line;
    if (line.phase === "injecting") {
      const started_ms = line.at_us / 1000;
      records.push({ experiment, link, fault, stream, started_ms, ended_ms: started_ms, took_effect: false });
    }
    const last = records.findLast((record) => record.link === link && record.fault === fault);
    if (last === undefined) continue;
    if (line.phase === "injected") last.took_effect = line.took_effect === true;
    last.ended_ms = line.at_us / 1000;
  }
  return records;
};

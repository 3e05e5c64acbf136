/** A fault on a link beside a running load: the load's own lines show what is steady and what has recovered. */
import { type ExperimentSteps, type Outcome, runExperiment } from "../../chaos/experiment.ts";
import type { Problem } from "../../drivers/open-loop/job.ts";
import type { FaultLine } from "../../history/line.ts";
import type { FaultRecord } from "../../history/run-document.ts";
import { pause } from "../../supervision/waiting.ts";
import { type LinkBreaker, linkBreaker } from "./break-link.ts";
import { ENOUGH_TO_SHOW, isBack, isSteady, showsFault } from "./callers-side.ts";
import type { DisturbanceContext, Disturbed, LinkFault } from "./disturbance.ts";
import { type Pace, paceOf } from "./pace.ts";
import type { CallsSeen, RecentCalls } from "./recent-calls.ts";

/** Calls that are looked at for an effect: the newest, so that the first ones after the fault do not hide it. */
const EFFECT_CALLS = 2 * ENOUGH_TO_SHOW;

type Moments = {
  beganUs: number;
  askedUs: number;
  healedUs: number;
  /** Whether callers saw anything of the fault until it was healed. */
  hitCallers?: boolean;
};

const stepsOf = (breaker: LinkBreaker, recent: RecentCalls, moments: Moments, pace: Pace): ExperimentSteps => {
  let before: CallsSeen = { calls: 0, through: 0, latencyMsP50: 0 };
  return {
    inject: breaker.inject,
    heal: (signal) => {
      moments.hitCallers ??= showsFault(before, recent.newest(moments.askedUs, EFFECT_CALLS));
      return breaker.heal(signal);
    },
    isSteady: async () => {
      if (!isSteady(recent.newest(moments.beganUs, pace.steadyCalls), pace.steadyCalls)) return false;
      before = recent.newest(moments.beganUs);
      return true;
    },
    showsEffect: async () =>
      breaker.showsOnLink === null
        ? showsFault(before, recent.newest(moments.askedUs, EFFECT_CALLS))
        : await breaker.showsOnLink(),
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

const problemsOf = (outcome: Outcome, breaker: LinkBreaker, wasStopped: boolean): Problem[] => {
  const problems: Problem[] = [];
  const doubt = (reason: string): void => void problems.push({ verdict: "inconclusive", reason });
  if (outcome.stopped && !wasStopped) doubt("the load ended before the experiment did");
  else if (!outcome.steady) doubt("no steady state before the fault");
  else if (!outcome.tookEffect) doubt(breaker.showsOnLink === null ? NO_EFFECT.callers : NO_EFFECT.link);
  if (!outcome.healed) doubt("the fault could not be healed");
  if (outcome.recovered === false) problems.push({ verdict: "fail", reason: "no recovery by the deadline" });
  return problems;
};

/** Returns when the load has run long enough after the heal. */
export const breakLink = async (disturbance: LinkFault, beside: DisturbanceContext): Promise<Disturbed> => {
  const { context, deployment, stage, recent, onLine, signal } = beside;
  const pace = paceOf(disturbance, beside.ratePerS, deployment.target.limits);
  const breaker = await linkBreaker(disturbance, beside);
  const moments: Moments = {
    beganUs: context.nowUs(),
    askedUs: Number.POSITIVE_INFINITY,
    healedUs: Number.POSITIVE_INFINITY,
  };
  const { outcome } = await runExperiment(
    {
      stage,
      experiment: disturbance.name,
      link: disturbance.link,
      fault: disturbance.fault,
      stream: breaker.stream,
      undo: breaker.undo,
      steps: stepsOf(breaker, recent, moments, pace),
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
        if (line.phase === "healed") moments.healedUs = line.at_us;
        onLine(line);
      },
    },
  );
  const leftMs = (moments.healedUs - context.nowUs()) / 1000 + pace.recoveryMs + pace.afterMs;
  if (Number.isFinite(leftMs) && leftMs > 0) await pause(leftMs, signal);
  const lost = deployment.remoteWatch?.lost() ?? null;
  const isUnseen = outcome.tookEffect && breaker.showsOnLink !== null && moments.hitCallers === false;
  return {
    problems: [
      ...problemsOf(outcome, breaker, context.signal.aborted),
      ...(lost === null ? [] : [{ verdict: "inconclusive" as const, reason: lost }]),
    ],
    notes: [...breaker.notes, ...outcome.notes, ...(isUnseen ? [UNSEEN] : [])],
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
    const last = records.at(-1);
    if (last === undefined) continue;
    if (line.phase === "injected") last.took_effect = line.took_effect === true;
    last.ended_ms = line.at_us / 1000;
  }
  return records;
};

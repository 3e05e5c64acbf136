/**
 * Folds the lines of one stage into its curve. Calls are kept as a few numbers each, because start, objective and warm-up are
 * known only when all have come: a schedule of at most six minutes bounds them, and beyond `CALLS_MOST` there is no curve.
 */
import { SHED_OUTCOMES } from "../contract/refusals.ts";
import { streamResult } from "../contract/streams.ts";
import { type CallLine, classOf, type Line } from "../history/line.ts";
import type { Objective } from "../history/objectives.ts";
import { Z_95 } from "../history/statistics/distributions.ts";
import { Histogram } from "../history/statistics/histogram.ts";
import { mean, median, mostAtOnce, quantile, quantileRanks } from "../history/statistics/statistics.ts";
import type {
  CallObjective,
  Curve,
  CurveLevel,
  Estimate,
  OrganizationShare,
  Pass,
  PlannedLevel,
  Quantiles,
} from "./curve.ts";
import { batchMean, type Carried, type KneeOfLevels, kneeOfLevels } from "./knee.ts";
import { isAdmitted, LATENCY } from "./knee-of-ramp.ts";
import { burstsOf, dispersionOf, type Window } from "./shed-windows.ts";

type CurveOptions = {
  readonly stage: string;
  readonly planned: readonly PlannedLevel[];
  /** Objectives of the target file about these calls; only those of a p99 or above bind a single call. */
  readonly stated?: readonly Objective[];
  readonly closedForm?: Curve["closedForm"];
  /** Where it is known; otherwise several replicas may explain what is shed below the knee. */
  readonly replicas?: number;
  readonly notPlayed?: readonly number[];
};

const KEPT = [
  ...(["intended_us", "sent_us", "done_us", "first_event_us"] as const),
  ...(["outcome", "org", "events", "ended", "aborted", "attempt"] as const),
] as const;
type Kept = Pick<CallLine, (typeof KEPT)[number]>;

export const CALLS_MOST = 2_000_000;
/** Answers at the calmest level from which it is known how long one takes. */
const CALM_CALLS = 20;
/** What a call has to keep where nothing is stated: three times the calm p99, and what a busy machine adds. */
export const CALM_TIMES = 3;
export const CALM_ADDED_MS = 100;
/** The most patient caller: calls that share what serves them take as many times longer as there are in flight. */
const PATIENT_TIMES = 10;
const PATIENT_ADDED_MS = 1_000;
/** Calls of the level before are in flight for about two medians; at least half a second, at most a third of a level. */
const WARM_UP_STAYS = 2;
const WARM_UP_MIN_S = 0.5;
const WARM_UP_SHARE = 1 / 3;
const BATCHES_MOST = 20;
const BATCH_MIN_S = 0.25;
/** Above this share of calls refused or late a level is past the knee: at the knee itself eight slots refuse 24 %. */
export const PAST_KNEE = 0.25;
/** Up to this multiple of the knee hardly anything is shed by chance. */
const BELOW_KNEE = 0.75;
const ORGANIZATIONS_MOST = 256;
const WINDOW_CALLS = 10;

type End = "good" | "late" | "shed" | "failed" | "aborted";
type Ended = { readonly end: End; readonly outcome: string };

const msBetween = (fromUs: number, toUs: number): number => (toUs - fromUs) / 1000;
const stayMs = ({ intended_us: due, done_us: done }: Kept): number => msBetween(due, done);
const firstMs = ({ intended_us: due, first_event_us: first, done_us: done }: Kept): number =>
  msBetween(due, first ?? done);

const isWhole = (call: Kept): boolean => /^2\d\d$/.test(call.outcome) && streamResult(call) === "whole";

const endOf = (call: Kept, objective: CallObjective): Ended => {
  const { outcome } = call;
  if (isWhole(call)) {
    const isGood = firstMs(call) <= objective.firstEventMs && stayMs(call) <= objective.stayMs;
    return { end: isGood ? "good" : "late", outcome };
  }
  if (streamResult(call) === "left") return { end: "aborted", outcome };
  if (SHED_OUTCOMES.has(outcome)) return { end: "shed", outcome };
  return { end: "failed", outcome: classOf(outcome) === "answered" && streamResult(call) === "cut" ? "cut" : outcome };
};

const quantilesOf = (ms: readonly number[]): Quantiles => {
  const sorted = ms.toSorted((a, b) => a - b);
  const p99 = quantileRanks(sorted.length, 0.99) === null ? null : quantile(sorted, 0.99);
  return { p50: quantile(sorted, 0.5), p99 };
};

/** The p99 by nearest rank, also of a few. */
const p99 = (ms: readonly number[]): number =>
  (Histogram.of(ms.map((value) => value * 1000)).quantile(0.99) ?? 0) / 1000;

/** What objectives ask of a single call, in milliseconds. */
export const statedLimitMs = (stated: readonly Objective[], of: "answer" | "first event"): number | null => {
  const limits = stated.flatMap((one) =>
    one.kind === "time" && one.of === of && one.quantile >= 0.99 ? [one.limit] : [],
  );
  return limits.length === 0 ? null : Math.min(...limits);
};

const objectiveOf = (calm: readonly Kept[], stated: readonly Objective[], isPatient: boolean): CallObjective => {
  const [first, stay] = [statedLimitMs(stated, "first event"), statedLimitMs(stated, "answer")];
  const times = calm.map(stayMs);
  const patientMs = isPatient ? PATIENT_TIMES * (mean(times) ?? 0) + PATIENT_ADDED_MS : 0;
  const calmMs = stay ?? Math.max(patientMs, CALM_TIMES * p99(times) + CALM_ADDED_MS);
  return {
    // Unless it is stated, a first event may come as late as a whole answer: a short queue is no failure.
    firstEventMs: first ?? calmMs,
    stayMs: calmMs,
    from: first === null && stay === null ? "calm" : "stated",
  };
};

const countBy = (ends: readonly Ended[], wanted: End): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { end, outcome } of ends) if (end === wanted) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
};

/** What is known of a level beside what a report shows. */
type Judged = {
  readonly level: CurveLevel;
  readonly calls: readonly Kept[];
  readonly ends: readonly Ended[];
  readonly carried: Carried;
  readonly isPast: boolean;
  readonly windows: readonly Window[];
};

type Frame = {
  readonly startUs: number;
  readonly warmUpS: number;
  readonly calmS: number;
  readonly objective: CallObjective;
  /** When admitted calls ended. */
  readonly doneUs: readonly number[];
};

const judgeLevel = (planned: PlannedLevel, all: readonly Kept[], retries: number, frame: Frame): Judged => {
  const { startUs, warmUpS, calmS, objective, doneUs } = frame;
  const fromUs = startUs + planned.fromUs + Math.min(warmUpS * 1e6, WARM_UP_SHARE * (planned.toUs - planned.fromUs));
  const toUs = startUs + planned.toUs;
  const judgedS = (toUs - fromUs) / 1e6;
  const calls = all.filter(({ intended_us: due }) => due >= fromUs && due < toUs);
  const ends = calls.map((call) => endOf(call, objective));
  const count = (wanted: End): number => ends.filter(({ end }) => end === wanted).length;
  const batches = Math.min(BATCHES_MOST, Math.max(2, Math.floor(judgedS / Math.max(BATCH_MIN_S, calmS))));
  const perBatch = (wanted: (at: number) => boolean, moments: readonly number[]): number[] => {
    const counts = new Array<number>(batches).fill(0);
    for (const [at, us] of moments.entries()) {
      const batch = Math.floor(((us - fromUs) / (toUs - fromUs)) * batches);
      if (batch >= 0 && batch < batches && wanted(at)) counts[batch] = (counts[batch] as number) + 1;
    }
    return counts;
  };
  const dueUs = calls.map(({ intended_us: due }) => due);
  const perS = (counts: readonly number[]): number[] => counts.map((n) => (n * batches) / judgedS);
  const offered = perBatch(() => true, dueUs);
  const shed = perBatch((at) => ends[at]?.end === "shed", dueUs);
  const refused = calls.filter((call) => !isAdmitted(call as CallLine)).length;
  const [good, late] = [count("good"), count("late")];
  const whole = calls.filter(isWhole);
  const windows = windowsOf(dueUs, ends, fromUs, toUs, 1e6 * Math.max(0.1, calmS, WINDOW_CALLS / planned.ratePerS));
  const [wentIn, cameOut] = [perBatch((at) => isAdmitted(calls[at] as CallLine), dueUs), perBatch(() => true, doneUs)];
  // Of a queue that grows more goes in, of one that shrinks more comes out.
  const carried = (mean(wentIn) ?? 0) < (mean(cameOut) ?? 0) ? wentIn : cameOut;
  const streamed = (some: (end: Ended) => boolean): number =>
    calls.reduce((sum, { events = 0 }, at) => sum + (some(ends[at] as Ended) ? events : 0), 0);
  const shedCalls = calls.filter((_, at) => ends[at]?.end === "shed");
  const lags = calls.map(({ intended_us: due, sent_us: sent }) => msBetween(due, sent));
  const level: CurveLevel = {
    pass: planned.pass,
    ratePerS: planned.ratePerS,
    judgedS,
    offered: calls.length,
    good,
    late,
    shed: countBy(ends, "shed"),
    failed: countBy(ends, "failed"),
    aborted: count("aborted"),
    retries,
    goodputPerS: rateOf(perS(perBatch((at) => ends[at]?.end === "good", dueUs)), judgedS),
    shedShare: shareOf(shed, offered),
    shedDispersion: dispersionOf(windows),
    stayMs: quantilesOf(whole.map(stayMs)),
    firstEventMs: quantilesOf(whole.map(firstMs)),
    refusalMs: quantilesOf(shedCalls.map(stayMs)),
    lagMs: lags.length === 0 ? null : p99(lags),
    events: streamed(() => true),
    wastedEvents: streamed(({ end, outcome }) => end === "late" || (end === "failed" && outcome === "cut")),
  };
  return {
    ...{ level, calls, ends, windows },
    carried: { ratePerS: planned.ratePerS, batches: perS(carried), isQueue: late > good },
    isPast: Math.max(refused, late) >= PAST_KNEE * Math.max(1, calls.length),
  };
};

const windowsOf = (
  dueUs: readonly number[],
  ends: readonly Ended[],
  fromUs: number,
  toUs: number,
  windowUs: number,
): Window[] => {
  const count = Math.floor((toUs - fromUs) / windowUs);
  const windows = Array.from(
    { length: count },
    (_, at): Window => ({ atUs: fromUs + at * windowUs, offered: 0, shed: 0 }),
  );
  for (const [at, us] of dueUs.entries()) {
    const window = windows[Math.floor((us - fromUs) / windowUs)];
    if (window === undefined) continue;
    window.offered += 1;
    if (ends[at]?.end === "shed") window.shed += 1;
  }
  return windows;
};

/** Below this many batches their own scatter says little. */
const FEW_BATCHES = 6;
/** Calls that come in bursts vary at most this many times more than those of a Poisson process, in standard deviations. */
const IN_BURSTS = 2;

const rateOf = (perS: readonly number[], judgedS: number): Estimate => {
  const estimate = batchMean(perS);
  const half = IN_BURSTS * Z_95 * Math.sqrt(estimate.value / judgedS);
  if (perS.length >= FEW_BATCHES || estimate.value === 0 || estimate.high - estimate.value <= half) return estimate;
  return { value: estimate.value, low: Math.max(0, estimate.value - half), high: estimate.value + half };
};

/** A share by batches of unequal size (Cochran, "Sampling Techniques", section 6.4). */
const shareOf = (hits: readonly number[], of: readonly number[]): CurveLevel["shedShare"] => {
  const all = of.reduce((sum, n) => sum + n, 0);
  const share = all === 0 ? 0 : hits.reduce((sum, n) => sum + n, 0) / all;
  const size = all / of.length;
  const off = hits.map((n, at) => (n - share * (of[at] as number)) / Math.max(1, size));
  const { low, high } = batchMean(off.map((value) => value + share));
  return { value: share, low: Math.max(0, low), high: Math.min(1, high) };
};

const ofWays = (judged: readonly Judged[], ...ways: Pass[]): Judged[] => {
  const levels = judged.filter(({ level }) => ways.includes(level.pass) && level.offered > 0);
  return levels.sort((a, b) => a.level.ratePerS - b.level.ratePerS);
};

const commonest = (counts: ReadonlyMap<string, number>): string | null =>
  [...counts].reduce<[string | null, number]>((most, one) => (one[1] > most[1] ? one : most), [null, 0])[0];

const kneeByOf = (past: readonly Judged[]): string | null => {
  const refused = new Map<string, number>();
  let late = 0;
  for (const { ends } of past) {
    for (const { end, outcome } of ends) {
      if (end === "late") late += 1;
      if (end === "shed" || end === "failed") refused.set(outcome, (refused.get(outcome) ?? 0) + 1);
    }
  }
  const by = commonest(refused);
  return past.length === 0 ? null : late > (refused.get(by ?? "") ?? 0) ? LATENCY : by;
};

const organizationsOf = (past: readonly Judged[]): readonly OrganizationShare[] | null => {
  const shares = new Map<string, { offered: number; good: number }>();
  for (const { calls, ends } of past) {
    for (const [at, { org }] of calls.entries()) {
      if (org === "-") continue;
      const share = shares.get(org) ?? { offered: 0, good: 0 };
      shares.set(org, share);
      if (shares.size > ORGANIZATIONS_MOST) return null;
      share.offered += 1;
      if (ends[at]?.end === "good") share.good += 1;
    }
  }
  return [...shares].map(([org, share]) => ({ org, ...share })).sort((a, b) => (a.org < b.org ? -1 : 1));
};

type CurveFold = {
  /** Any line of the run, in any order. */
  see(line: Line): void;
  /** `startUs`: when the schedule began; where absent, when the first call was due. `null` where `lacks` says why. */
  end(startUs?: number): Curve | null;
  /** What a curve lacks, in words, once `end` gave none. */
  lacks(): string | null;
};

export const openCurve = (options: CurveOptions): CurveFold => {
  const { stage, planned, stated = [], closedForm = null, notPlayed = [] } = options;
  const first: Kept[] = [];
  const retries: number[] = [];
  let folded = 0;
  let lacking: string | null = null;

  const see = (line: Line): void => {
    if (line.stage !== stage) return;
    if (line.type === "fold") folded += line.offered;
    if (line.type !== "call" || line.unscheduled !== undefined || first.length >= CALLS_MOST) return;
    if (line.attempt > 0) retries.push(line.intended_us);
    else first.push(Object.fromEntries(KEPT.map((name) => [name, line[name]])) as Kept);
  };

  const end = (start: number | undefined, isPatient: boolean): Curve | null => {
    const lacks = (what: string): null => {
      lacking = what;
      return null;
    };
    if (folded > 0) return lacks(`every call whole; ${folded} were folded into seconds`);
    if (first.length >= CALLS_MOST) return lacks(`at most ${CALLS_MOST} calls`);
    first.sort((a, b) => a.intended_us - b.intended_us);
    const startUs = start ?? first[0]?.intended_us ?? 0;
    const [calmest] = planned;
    if (calmest === undefined) return lacks("a schedule");
    const isCalm = ({ intended_us: due }: Kept): boolean => due < startUs + calmest.toUs;
    const calm = first.filter((call) => isCalm(call) && isWhole(call));
    if (calm.length < CALM_CALLS) return lacks(`${CALM_CALLS} whole answers at the lowest rate; ${calm.length} came`);
    const calmS = (median(calm.map(stayMs)) as number) / 1000;
    const levelS = Math.min(...planned.map(({ fromUs, toUs }) => toUs - fromUs)) / 1e6;
    const warmUpS = Math.max(WARM_UP_MIN_S, WARM_UP_STAYS * calmS);
    const objective = objectiveOf(calm, stated, isPatient);
    const admitted = first.filter((call) => isAdmitted(call as CallLine));
    const doneUs = admitted.map(({ done_us: us }) => us);
    const frame: Frame = { startUs, warmUpS, calmS, objective, doneUs };
    const judged = planned.map((level) => {
      const isIn = (us: number): boolean => us >= startUs + level.fromUs && us < startUs + level.toUs;
      return judgeLevel(
        level,
        first.filter(({ intended_us: us }) => isIn(us)),
        retries.filter(isIn).length,
        frame,
      );
    });
    const about = {
      most: mostAtOnce(admitted.map(({ sent_us: sent, done_us: done }) => [sent, done] as const)),
      stayS: calm.reduce((sum, { sent_us: sent, done_us: done }) => sum + (done - sent), 0) / calm.length / 1e6,
      replicas: options.replicas ?? closedForm?.replicas,
    };
    const kneeOf = (levels: readonly Judged[]): KneeOfLevels | null =>
      kneeOfLevels(
        levels.filter(({ isPast }) => isPast).map(({ carried }) => carried),
        levels.map(({ carried }) => carried),
        about,
      );
    const up = ofWays(judged, "up");
    const before = kneeOf(up);
    const after = kneeOf(ofWays(judged, "down", "after"));
    const past = up.filter(({ isPast }) => isPast);
    const below = judged.filter(({ level }) => level.ratePerS <= BELOW_KNEE * (before?.knee.value ?? 0));
    return {
      stage,
      warmUp: { seconds: Math.min(warmUpS, WARM_UP_SHARE * levelS), isCut: warmUpS > WARM_UP_SHARE * levelS },
      levels: judged.map(({ level }) => level),
      objective,
      serviceMs: about.stayS * 1000,
      knee: { before: before?.knee ?? null, after: after?.knee ?? null },
      models: before?.systems ?? [],
      organizations: organizationsOf(past),
      burstsBelowKnee: burstsOf(below.map(({ windows }) => windows)),
      kneeBy: kneeByOf(past),
      closedForm,
      notPlayed,
      patient: objective.from === "calm" && !isPatient ? end(start, true) : null,
    };
  };
  return { see, end: (start) => end(start, false), lacks: () => lacking };
};

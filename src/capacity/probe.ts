/** One probe of a capacity search: a short block of calls at a steady rate, and whether each objective is met. */
import { isWholeAnswer } from "../contract/streams.ts";
import { type CallLine, classOf, dueWithin, type Span } from "../history/line.ts";
import { judgeObjectives, violates } from "../history/objective-verdicts.ts";
import type { Objective } from "../history/objectives.ts";
import { add, known, median, sequentialLines, sumOf } from "../history/statistics/statistics.ts";

/** Why the rate is played: to find a rate that breaks, to narrow it down, to be sure of the answer, to try the generator. */
export type Purpose = "bracket" | "narrow" | "confirm" | "beyond";

/**
 * `warmUpS`: seconds at the beginning that do not count. `playS`: the most seconds that count. `mayStopEarly`: the probe may
 * end as soon as its verdict is clear. `dispersions`: for each objective, the variance of a tally divided by that of independent calls, as known before.
 */
export type ProbePlan = Readonly<Record<"ratePerS" | "warmUpS" | "playS", number>> & {
  readonly purpose: Purpose;
  readonly mayStopEarly: boolean;
  readonly dispersions: readonly number[];
};

/** The calls that an objective covers (`n`), and those that violate it. */
export type Tally = { bad: number; n: number };

/**
 * `blocks`: parts of the probe in order, each much longer than a call; their scatter shows how correlated calls are.
 * `isTime`: calls are bad because they take too long.
 */
export type ObjectiveTally = Tally & { readonly blocks: readonly Tally[]; readonly isTime: boolean };

/**
 * What the generator and its host did; `null` if not measured. `cpuShare` is of one core, `stealShare` and `othersShare` of
 * all, `throttledShare` of the time. `othersShare`: what other programs used just before or after the probe, when none of
 * its calls was under way, so that it is not the deployment's work.
 */
type GeneratorFacts = Readonly<Record<"lagMsP99" | "dropped" | "queued" | "unmade", number>> &
  Readonly<Record<"cpuShare" | "stealShare" | "throttledShare" | "othersShare", number | null>> & {
    readonly notes: readonly string[];
  };

/** `playedS`: the seconds that counted. */
export type ProbeResult = Readonly<Omit<ReturnType<typeof tallyCalls>, "shown" | "organizations">> & {
  readonly plan: ProbePlan;
  readonly playedS: number;
  readonly generator: GeneratorFacts;
};

export type ProbeVerdict = "met" | "broken" | "open";

/** The measured calls per second: a Poisson schedule offers somewhat more or less than its rate. */
export const offeredPerS = ({ calls, playedS, plan }: ProbeResult): number =>
  playedS > 0 && calls > 0 ? calls / playedS : plan.ratePerS;

export const perS = (rate: number): string =>
  `${rate < 10 ? rate.toFixed(2) : rate < 100 ? rate.toFixed(1) : rate.toFixed(0)}/s`;

/** With 16 slots refusals grow as the seventh power of the rate, so odds 1.5 times larger are a rate 6 % away. */
const ODDS_RATIO = 1.5;
/** Error probabilities of the test: `LIKELY` is enough to choose the next probe, `SURE` to bound the answer. */
const LIKELY = 0.05;
export const SURE = 0.01;
/** No finite number of calls shows that a share is zero, so a limit of 0 is judged as one call in a thousand. */
const SMALLEST_LIMIT = 0.001;

export const judgedLimit = (limit: number): number => Math.min(1 - SMALLEST_LIMIT, Math.max(SMALLEST_LIMIT, limit));

const shareOfOdds = (odds: number): number => odds / (1 + odds);

/**
 * Judges whether a share of bad calls is above or below its limit, repeatedly while a probe runs: Wald's sequential
 * probability ratio test between odds `ODDS_RATIO` times smaller and larger than those of the limit. `dispersion`: the
 * variance of the tally divided by that of independent calls.
 */
export const judgeShare = ({ bad, n }: Tally, limit: number, dispersion: number, error = LIKELY): ProbeVerdict => {
  const p = judgedLimit(limit);
  const odds = p / (1 - p);
  const [good, poor] = [shareOfOdds(odds / ODDS_RATIO), shareOfOdds(odds * ODDS_RATIO)];
  const { slope, accept, reject } = sequentialLines({ good, bad: poor, falseAlarm: error, missed: error });
  const above = (bad - slope * n) / dispersion;
  return above >= reject ? "broken" : above <= -accept ? "met" : "open";
};

export const judgeTallies = (tallies: readonly Tally[], limits: readonly number[], dispersions: readonly number[]) => {
  const verdicts = tallies.map((tally, at) => judgeShare(tally, limits[at] as number, dispersions[at] as number));
  if (verdicts.includes("broken")) return "broken";
  return verdicts.length > 0 && verdicts.every((verdict) => verdict === "met") ? "met" : "open";
};

/** The prior dispersion counts as this many degrees of freedom. */
const PRIOR_WEIGHT = 4;
/** Losses of a server without a queue come in clusters: about this many times the variance of independent ones. */
export const PRIOR_DISPERSION = 2;
/**
 * Late calls of a queue come in larger clusters: their variance is 10 to 300 times that of independent calls, as measured in
 * virtual time (M/M/c with 1 to 16 servers).
 */
const PRIOR_DISPERSION_OF_TIMES = 8;
const CLUSTER = 3;
/** How many neighbouring blocks are taken as one: a queue that empties slowly stays long for many blocks in a row. */
const JOINED = [1, 2, 4, 8];

const joinedBlocks = (blocks: readonly Tally[], by: number): Tally[] =>
  Array.from({ length: Math.floor(blocks.length / by) }, (_, at) => {
    const part = blocks.slice(at * by, (at + 1) * by);
    return { bad: sumOf(part.map(({ bad }) => bad)), n: sumOf(part.map(({ n }) => n)) };
  });

/**
 * The variance of a probe's blocks divided by that of independent calls (Pearson's chi-square over its degrees of
 * freedom; McCullagh & Nelder, "Generalized Linear Models", section 4.5), at least 1. Blocks are joined by each number in `JOINED`;
 * the largest result counts.
 */
export const dispersionOf = (tallies: readonly ObjectiveTally[]): number => {
  const prior = tallies.some(({ isTime }) => isTime) ? PRIOR_DISPERSION_OF_TIMES : PRIOR_DISPERSION;
  const ofLength = (by: number): number => {
    let chiSquare = PRIOR_WEIGHT * prior;
    let freedom = PRIOR_WEIGHT;
    for (const { bad, n, blocks: single } of tallies) {
      const share = n === 0 ? 0 : bad / n;
      const variance = share * (1 - share);
      const blocks = joinedBlocks(single, by);
      // One or two bad calls say nothing about how they cluster.
      if (blocks.length < 2 || bad < CLUSTER || n - bad < CLUSTER) continue;
      for (const block of blocks) chiSquare += (block.bad - block.n * share) ** 2 / (Math.max(1, block.n) * variance);
      freedom += blocks.length - 1;
    }
    return chiSquare / freedom;
  };
  return Math.max(1, ...JOINED.map(ofLength));
};

/** A block of a probe lasts this many times as long as a call, so that blocks are nearly independent. */
const BLOCK_LATENCIES = 5;
const BLOCK_LEAST_US = 1_000_000;

const tallyOf = (counted: readonly CallLine[], { isBad, isTime }: ShareObjective, fromUs: number, blockUs: number) => {
  const whole = { bad: 0, n: 0 };
  const blocks = new Map<number, Tally>();
  for (const line of counted) {
    const bad = isBad(line);
    if (bad === null) continue;
    const at = Math.floor((line.intended_us - fromUs) / blockUs);
    const block = known(blocks, at, () => ({ bad: 0, n: 0 }));
    for (const tally of [whole, block]) {
      tally.n += 1;
      tally.bad += Number(bad);
    }
  }
  // Calls come in the order of their ends.
  const inOrder = [...blocks].sort(([one], [other]) => one - other).map(([, block]) => block);
  return { ...whole, blocks: inOrder, isTime };
};

/** Tallies without blocks, for a probe that still runs. */
export const tallyPlainly = (lines: readonly CallLine[], objectives: readonly ShareObjective[], span: Span): Tally[] =>
  objectives.map((objective) => tallyOf(dueWithin(lines, span), objective, span.fromUs, Number.POSITIVE_INFINITY));

/** Of the calls of a span: a tally for each objective, in words too; the outcomes as in `by_outcome` of a run. */
export const tallyCalls = (lines: readonly CallLine[], objectives: readonly ShareObjective[], span: Span) => {
  const counted = dueWithin(lines, span);
  const answered = counted.filter((line) => classOf(line.outcome) === "answered" && isWholeAnswer(line));
  const medianUs = median(answered.map((line) => line.done_us - line.intended_us));
  const blockUs = Math.max(BLOCK_LEAST_US, BLOCK_LATENCIES * (medianUs ?? 0));
  const outcomes = new Map<string, number>();
  for (const { outcome } of counted) add(outcomes, outcome, 1);
  return {
    calls: counted.length,
    tallies: objectives.map((objective) => tallyOf(counted, objective, span.fromUs, blockUs)),
    shown: objectives.map((objective) => objective.shown(counted)),
    outcomes: Object.fromEntries(outcomes),
    organizations: new Set(counted.map(({ org }) => org)).size,
    latencyMsP50: medianUs === null ? null : medianUs / 1000,
  };
};

export type ShareObjective = ReturnType<typeof shareObjective>;

/**
 * An objective of a search as a share of calls: `p99<=300ms` becomes "at most 1 % take longer than 300 ms". Throws an
 * `Error` for an objective by which no rate can be found.
 */
export const shareObjective = (objective: Objective) => {
  const { text, kind, limit } = objective;
  const isTime = kind === "time";
  if (isTime && objective.quantile === 1) {
    const why = "a capacity needs a share of calls, such as p999; one call decides the largest";
    throw new Error(`objective "${text}": ${why}`);
  }
  return {
    /** `text` names the claim; `limitMs`: of an objective about a time. */
    ...{ text, isTime, limitMs: isTime ? limit : undefined },
    /** Largest share of bad calls, 0 to 1. */
    limit: isTime ? 1 - objective.quantile : limit,
    /** `null` if the objective does not cover the call. */
    isBad: (line: CallLine): boolean | null => violates(objective, line),
    shown: (lines: readonly CallLine[]): string => {
      const value = judgeObjectives([objective], lines)[0]?.value ?? null;
      if (value === null) return "-";
      return isTime ? `${value.toFixed(value < 10 ? 1 : 0)} ms` : `${(value * 100).toFixed(2)} %`;
    },
  };
};

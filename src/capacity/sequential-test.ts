/**
 * Is a share of bad calls above or below its limit? Looked at again and again while a probe runs, which a fixed test does
 * not allow: Wald's sequential probability ratio test (Wald, "Sequential Tests of Statistical Hypotheses", 1945) between
 * odds that are `ODDS_RATIO` times smaller and larger than those of the limit.
 */
import { sequentialLines } from "../history/statistics/sequential-test.ts";
import type { ObjectiveTally, ProbeVerdict, Tally } from "./probe.ts";

/** Where refusals grow as the seventh power of the rate, as with 16 slots, 1.5 is a rate 6 % away. */
const ODDS_RATIO = 1.5;
/** Either error at most this often: for where to look next, and for what the answer may be built on. */
const LIKELY = 0.05;
export const SURE = 0.01;
/** No finite number of calls shows that a share is nothing. A limit of 0 is judged as one call in a thousand. */
const SMALLEST_LIMIT = 0.001;

export const judgedLimit = (limit: number): number => Math.min(1 - SMALLEST_LIMIT, Math.max(SMALLEST_LIMIT, limit));

const shareOfOdds = (odds: number): number => odds / (1 + odds);

/** `dispersion`: how many times more the tally varies than that of independent calls would. */
export const judgeShare = ({ bad, n }: Tally, limit: number, dispersion: number, error = LIKELY): ProbeVerdict => {
  const p = judgedLimit(limit);
  const odds = p / (1 - p);
  const [good, poor] = [shareOfOdds(odds / ODDS_RATIO), shareOfOdds(odds * ODDS_RATIO)];
  const { slope, accept, reject } = sequentialLines({ good, bad: poor, falseAlarm: error, missed: error });
  const above = (bad - slope * n) / dispersion;
  return above >= reject ? "broken" : above <= -accept ? "met" : "open";
};

/** Broken when one objective is, met when all are. */
export const judgeTallies = (
  tallies: readonly Tally[],
  limits: readonly number[],
  dispersions: readonly number[],
): ProbeVerdict => {
  const verdicts = tallies.map((tally, at) => judgeShare(tally, limits[at] as number, dispersions[at] as number));
  if (verdicts.includes("broken")) return "broken";
  return verdicts.length > 0 && verdicts.every((verdict) => verdict === "met") ? "met" : "open";
};

/** Stands in for this many degrees of freedom until blocks have been seen. */
const PRIOR_WEIGHT = 4;
/** Losses of a server without a queue come in clusters: about this many times the variance of independent ones. */
export const PRIOR_DISPERSION = 2;
const CLUSTER = 3;

/**
 * How much the blocks of a probe differ, beside what independent calls would (Pearson's chi-square over its degrees of
 * freedom; McCullagh & Nelder, "Generalized Linear Models", section 4.5), at least 1.
 */
export const dispersionOf = (tallies: readonly ObjectiveTally[]): number => {
  let chiSquare = PRIOR_WEIGHT * PRIOR_DISPERSION;
  let freedom = PRIOR_WEIGHT;
  for (const { bad, n, blocks } of tallies) {
    const share = n === 0 ? 0 : bad / n;
    const variance = share * (1 - share);
    // One or two bad calls say nothing about how they cluster.
    if (blocks.length < 2 || bad < CLUSTER || n - bad < CLUSTER) continue;
    for (const block of blocks) chiSquare += (block.bad - block.n * share) ** 2 / (Math.max(1, block.n) * variance);
    freedom += blocks.length - 1;
  }
  return Math.max(1, chiSquare / freedom);
};

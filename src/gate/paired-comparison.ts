/**
 * Did it get worse? Judges pairs of blocks, base and head side by side, with three answers: a regression, no regression, or
 * that the pairs do not tell. "No regression" is never the absence of proof: the head has to be shown to be no worse than a
 * margin (non-inferiority), so too few or too noisy pairs cannot pass.
 *
 * Per measurement, h = ln(head / base), turned so that worse is positive:
 *   regression      h > 0 by the exact signed-rank test, Holm over the measurements, at 0.1 %; and typically at least the margin
 *   no regression   h < margin by the same test at 5 %, not corrected: all measurements have to show it
 *   inconclusive    neither
 */
import { type BlockValues, GATE_MEASUREMENTS, type GateMeasurement } from "./block.ts";
import { holm } from "./holm.ts";
import { PAIRS_MAX, signedRankP, smallestP, typicalDifference } from "./signed-rank.ts";

export type Pair = { base: BlockValues; head: BlockValues };

export type GatePolicy = {
  /** Chance that any measurement is called a regression where there is none, over all looks. */
  falseAlarm: number;
  /** Chance that a measurement worse by its margin passes, over all looks. */
  missed: number;
  /**
   * How often the growing heap of pairs may be looked at: who cannot tell yet may measure more and look again. Each look gets an
   * equal part of both chances (Bonferroni), or looking often enough would find anything.
   */
  looks: number;
  /** How much worse is still none, as a ratio above 1. */
  margins: Record<GateMeasurement, number>;
};

/**
 * Margins wider than what blocks of some hundred milliseconds scatter by on a shared machine: a tail is told by its one or two
 * slowest calls, so it is allowed more.
 */
export const GATE_POLICY: GatePolicy = {
  falseAlarm: 0.001,
  missed: 0.05,
  looks: 1,
  margins: { latency_ms_p50: 1.05, latency_ms_p99: 1.2, goodput: 1.05 },
};

export type GateVerdict = "regression" | "no-regression" | "inconclusive";

export type Comparison = {
  measurement: GateMeasurement;
  verdict: GateVerdict;
  /** Shown to be better by more than the margin: told, and it passes. */
  improved: boolean;
  /** Pairs that had both values. */
  pairs: number;
  /** Typical head / base, turned so that above 1 is worse; `null` without pairs. */
  worseBy: number | null;
  /** That it is worse at all (Holm), and that it is worse than the margin allows. */
  pWorse: number;
  pInside: number;
  reason: string;
};

/** A value that fell to nothing is this many times worse: ranks need no more, and means stay finite. */
const RATIO_MAX = 1_000;

const worse = (measurement: GateMeasurement, { base, head }: Pair): number | null => {
  const [was, is] = [base[measurement], head[measurement]];
  if (was === null || is === null) return null;
  if (was === is) return 0;
  const ratio = measurement === "goodput" ? was / is : is / was;
  return Math.log(Math.min(RATIO_MAX, Math.max(1 / RATIO_MAX, ratio)));
};

const percent = (p: number): string => (p < 0.0001 ? "< 0.01 %" : `${(p * 100).toPrecision(2)} %`);
const times = (ratio: number): string => ratio.toFixed(3);

type Tested = Omit<Comparison, "verdict" | "improved" | "reason"> & { pBetter: number };

const judge = ({ pBetter, ...tested }: Tested, policy: GatePolicy, pairsNeeded: number): Comparison => {
  const { measurement, pairs, worseBy, pWorse, pInside } = tested;
  const margin = policy.margins[measurement];
  const [falseAlarm, missed] = [policy.falseAlarm / policy.looks, policy.missed / policy.looks];
  const told = (verdict: GateVerdict, reason: string, improved = false): Comparison => ({
    ...tested,
    verdict,
    improved,
    reason,
  });
  if (worseBy === null || pairs < pairsNeeded) {
    return told("inconclusive", `too few pairs: ${pairs}, and no fewer than ${pairsNeeded} can tell`);
  }
  if (pWorse <= falseAlarm && worseBy >= margin) {
    return told("regression", `worse by ${times(worseBy)}, allowed ${times(margin)}; by chance ${percent(pWorse)}`);
  }
  if (pInside > missed) {
    const scatter = `typically ${times(worseBy)}, allowed ${times(margin)}`;
    return told("inconclusive", `too noisy to tell: ${scatter}; as bad as allowed ${percent(pInside)}`);
  }
  const improved = pBetter <= falseAlarm && worseBy <= 1 / margin;
  const how = improved ? "better" : "no worse than allowed";
  return told("no-regression", `${how}: typically ${times(worseBy)}, allowed ${times(margin)}`, improved);
};

/** One comparison for each measurement, in their order. Throws `RangeError` beyond `PAIRS_MAX` pairs. */
export const comparePairs = (pairs: readonly Pair[], policy: GatePolicy = GATE_POLICY): Comparison[] => {
  if (pairs.length > PAIRS_MAX) throw new RangeError(`at most ${PAIRS_MAX} pairs, not ${pairs.length}`);
  const seen = GATE_MEASUREMENTS.map((measurement) => {
    const differences = pairs.flatMap((pair) => worse(measurement, pair) ?? []);
    return { measurement, differences };
  });
  const opposite = (differences: readonly number[]): number[] => differences.map((difference) => -difference);
  const pWorse = holm(seen.map(({ differences }) => signedRankP(differences)));
  const pBetter = holm(seen.map(({ differences }) => signedRankP(opposite(differences))));
  // Fewer could not be told from chance even if every pair said the same.
  let pairsNeeded = 1;
  while (smallestP(pairsNeeded) * GATE_MEASUREMENTS.length * policy.looks > policy.falseAlarm) pairsNeeded += 1;
  return seen.map(({ measurement, differences }, at) => {
    const limit = Math.log(policy.margins[measurement]);
    const typical = typicalDifference(differences);
    const tested: Tested = {
      measurement,
      pairs: differences.length,
      worseBy: typical === null ? null : Math.exp(typical),
      pWorse: pWorse[at]!,
      pBetter: pBetter[at]!,
      pInside: signedRankP(differences.map((difference) => difference - limit).map((over) => -over)),
    };
    return judge(tested, policy, pairsNeeded);
  });
};

/** One regression is enough; a pass needs all of them. */
export const verdictOf = (comparisons: readonly Comparison[]): GateVerdict => {
  if (comparisons.some(({ verdict }) => verdict === "regression")) return "regression";
  return comparisons.every(({ verdict }) => verdict === "no-regression") ? "no-regression" : "inconclusive";
};

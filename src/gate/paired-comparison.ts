/**
 * Did it get worse? Judges pairs of blocks, base beside head. "No regression" is never the absence of proof: the head has
 * to be shown to be no worse than a margin (non-inferiority), so too few or too noisy pairs cannot pass.
 *
 * Per measurement, h = ln(head / base), turned so that worse is positive:
 *   regression      h > 0 by the exact signed-rank test, Holm over the measurements; and typically at least the margin
 *   no regression   h < margin by the same test, not corrected: all measurements have to show it
 *   inconclusive    neither
 *   not measured    most blocks of the base lack it (a story without streams has no gaps between events), and the head's
 *                   do as well
 */
import { type Interval, median, quantileInterval } from "../history/statistics/statistics.ts";
import { type BlockValues, GATE_MEASUREMENTS, type GateMeasurement, logWorse, MEASUREMENT_FACTS } from "./block.ts";
import { holm, signedRankP, smallestEffect, smallestP, typicalDifference, typicalInterval } from "./signed-rank.ts";

export type Pair = { base: BlockValues; head: BlockValues };

export type GatePolicy = typeof GATE_POLICY;

export const GATE_POLICY = {
  measurements: GATE_MEASUREMENTS as readonly GateMeasurement[],
  /** Chance that any measurement is called a regression where there is none, over all looks. */
  falseAlarm: 0.01,
  /** Chance that a measurement worse by its margin passes, over all looks. */
  missed: 0.05,
  /** How often the growing pairs may be looked at. Each look gets an equal part of both chances (Bonferroni). */
  looks: 1,
};

export type GateVerdict = "regression" | "no-regression" | "inconclusive" | "not-measured";

export type Comparison = ReturnType<typeof comparePairs>[number];

const percent = (p: number): string => (p < 0.0001 ? "< 0.01 %" : `${(p * 100).toPrecision(2)} %`);
const times = (ratio: number): string => (ratio >= 100 ? "100 or more" : ratio.toFixed(3));

const intervalOf = (values: readonly number[]): Interval | null => quantileInterval(values, 0.5);

const exp = (ln: number | null | undefined): number | null => (ln === null || ln === undefined ? null : Math.exp(ln));

/** One comparison for each measurement, in their order. Throws what `signedRankP` throws. */
export const comparePairs = (pairs: readonly Pair[], policy: GatePolicy = GATE_POLICY) => {
  const seen = policy.measurements.map((measurement) => {
    const values = pairs.map(({ base, head }) => [base[measurement], head[measurement]] as const);
    const both = values.filter((pair): pair is [number, number] => pair[0] !== null && pair[1] !== null);
    const differences = both.map(([was, is]) => logWorse(measurement, was, is));
    const isRare = (at: 0 | 1): boolean => values.filter((pair) => pair[at] === null).length * 2 > values.length;
    const isAbsent = isRare(0) && isRare(1);
    return { measurement, isAbsent, both, differences };
  });
  const present = seen.filter(({ isAbsent }) => !isAbsent);
  const pWorse = holm(present.map(({ differences }) => signedRankP(differences)));
  const pBetter = holm(present.map(({ differences }) => signedRankP(differences.map((difference) => -difference))));
  const [falseAlarm, missed] = [policy.falseAlarm / policy.looks, policy.missed / policy.looks];
  const tail = falseAlarm / Math.max(1, present.length);
  // Fewer pairs cannot be distinguished from chance even if all of them agree.
  let pairsNeeded = 1;
  while (smallestP(pairsNeeded) > tail) pairsNeeded += 1;
  return seen.map((one) => {
    const { measurement, isAbsent, both, differences } = one;
    const at = present.indexOf(one);
    const { margin } = MEASUREMENT_FACTS[measurement];
    const interval = typicalInterval(differences);
    const tested = {
      measurement,
      margin,
      pairs: both.length,
      /** ln of how many times worse, by pair; `tail`: the significance that a regression needs (`smallestSeen`). */
      ...{ differences, tail },
      /** p-values for being worse at all (adjusted by Holm), and for being no worse than the margin. */
      pWorse: pWorse[at] ?? 1,
      pInside: signedRankP(differences.map((difference) => Math.log(margin) - difference)),
      /** Medians over those pairs, in the measurement's unit; `null` without pairs. */
      base: median(both.map(([was]) => was)),
      head: median(both.map(([, is]) => is)),
      /** Their 95 % intervals; `null` below 6 pairs. */
      around: { base: intervalOf(both.map(([was]) => was)), head: intervalOf(both.map(([, is]) => is)) },
      /** Typical head / base, turned so that above 1 is worse, and its 95 % interval; `null` without (enough) pairs. */
      worseBy: exp(typicalDifference(differences)),
      low: exp(interval?.low),
      high: exp(interval?.high),
    };
    /** `improved`: shown to be better by more than the margin, which passes. */
    const found = (verdict: GateVerdict, reason: string, improved = false) => {
      return { ...tested, verdict, improved, reason };
    };
    const { worseBy, pInside } = tested;
    if (isAbsent) return found("not-measured", "most blocks have too few calls of the kind to measure it by");
    if (worseBy === null || both.length < pairsNeeded) {
      return found("inconclusive", `too few pairs: ${both.length}, and no fewer than ${pairsNeeded} can decide`);
    }
    const allowed = `(${times(margin)} allowed)`;
    if (tested.pWorse <= falseAlarm && worseBy >= margin) {
      return found(
        "regression",
        `worse by a factor of ${times(worseBy)} ${allowed}; by chance in ${percent(tested.pWorse)} of such comparisons`,
      );
    }
    const typically = `typically ${times(worseBy)} times as bad ${allowed}`;
    if (pInside > missed) {
      return found(
        "inconclusive",
        `too noisy to decide: ${typically}; a head as bad as allowed looks like this in ${percent(pInside)}`,
      );
    }
    const improved = (pBetter[at] ?? 1) <= falseAlarm && worseBy <= 1 / margin;
    return found("no-regression", `${improved ? "better" : "no worse than allowed"}: ${typically}`, improved);
  });
};

/** The smallest ratio that these pairs would have shown as a regression nine times in ten; `null` when they never could. */
export const smallestSeen = ({ differences, tail, margin }: Comparison): number | null =>
  exp(smallestEffect(differences, tail, Math.log(margin)));

export const verdictOf = (comparisons: readonly Comparison[]): GateVerdict => {
  const measured = comparisons.filter(({ verdict }) => verdict !== "not-measured");
  if (measured.some(({ verdict }) => verdict === "regression")) return "regression";
  const passes = measured.length > 0 && measured.every(({ verdict }) => verdict === "no-regression");
  return passes ? "no-regression" : "inconclusive";
};

/**
 * Did it get worse? Judges pairs of blocks, base and head side by side, with three answers: a regression, no regression, or
 * that the pairs do not show which. "No regression" is never the absence of proof: the head has to be shown to be no worse
 * than a margin (non-inferiority), so too few or too noisy pairs cannot pass.
 *
 * Per measurement, h = ln(head / base), turned so that worse is positive:
 *   regression      h > 0 by the exact signed-rank test, Holm over the measurements; and typically at least the margin
 *   no regression   h < margin by the same test, not corrected: all measurements have to show it
 *   inconclusive    neither
 *   not measured    no pair has it (a story without streams has no gaps between events)
 */
import { median } from "../history/statistics/statistics.ts";
import type { BlockValues } from "./block.ts";
import { holm } from "./holm.ts";
import { GATE_MEASUREMENTS, type GateMeasurement, logWorse, MEASUREMENT_FACTS } from "./measurements.ts";
import {
  PAIRS_MAX,
  signedRankP,
  smallestEffect,
  smallestP,
  typicalDifference,
  typicalInterval,
} from "./signed-rank.ts";

export type Pair = { base: BlockValues; head: BlockValues };

export type GatePolicy = {
  measurements: readonly GateMeasurement[];
  /** Chance that any measurement is called a regression where there is none, over all looks. */
  falseAlarm: number;
  /** Chance that a measurement worse by its margin passes, over all looks. */
  missed: number;
  /** How often the growing pairs may be looked at. Each look gets an equal part of both chances (Bonferroni). */
  looks: number;
  /** How much worse is still none, as a ratio above 1. */
  margins: Record<GateMeasurement, number>;
};

export const GATE_POLICY: GatePolicy = {
  measurements: GATE_MEASUREMENTS,
  falseAlarm: 0.01,
  missed: 0.05,
  looks: 1,
  margins: Object.fromEntries(
    GATE_MEASUREMENTS.map((name) => [name, MEASUREMENT_FACTS[name].margin]),
  ) as GatePolicy["margins"],
};

export type GateVerdict = "regression" | "no-regression" | "inconclusive" | "not-measured";

export type Comparison = {
  measurement: GateMeasurement;
  verdict: GateVerdict;
  /** Shown to be better by more than the margin: reported, and it passes. */
  improved: boolean;
  /** Pairs that had both values. */
  pairs: number;
  /** Medians over those pairs, in the measurement's unit; `null` without pairs. */
  base: number | null;
  head: number | null;
  /** Typical head / base, turned so that above 1 is worse, and its 95 % interval; `null` without (enough) pairs. */
  worseBy: number | null;
  low: number | null;
  high: number | null;
  margin: number;
  /** ln of how many times worse, pair by pair; and how unlikely such a row has to be, to be a regression (`smallestSeen`). */
  differences: readonly number[];
  tail: number;
  /** That it is worse at all (Holm), and that it is worse than the margin allows. */
  pWorse: number;
  pInside: number;
  reason: string;
};

const percent = (p: number): string => (p < 0.0001 ? "< 0.01 %" : `${(p * 100).toPrecision(2)} %`);
const times = (ratio: number): string => (ratio >= 100 ? "100 times or more" : ratio.toFixed(3));

type Tested = Omit<Comparison, "verdict" | "improved" | "reason"> & { pBetter: number };

const judge = ({ pBetter, ...tested }: Tested, policy: GatePolicy, pairsNeeded: number): Comparison => {
  const { pairs, worseBy, pWorse, pInside, margin } = tested;
  const [falseAlarm, missed] = [policy.falseAlarm / policy.looks, policy.missed / policy.looks];
  const found = (verdict: GateVerdict, reason: string, improved = false): Comparison => {
    return { ...tested, verdict, improved, reason };
  };
  if (worseBy === null || pairs < pairsNeeded) {
    return found("inconclusive", `too few pairs: ${pairs}, and no fewer than ${pairsNeeded} can decide`);
  }
  if (pWorse <= falseAlarm && worseBy >= margin) {
    return found("regression", `worse by ${times(worseBy)}, allowed ${times(margin)}; by chance ${percent(pWorse)}`);
  }
  if (pInside > missed) {
    const scatter = `typically ${times(worseBy)}, allowed ${times(margin)}`;
    return found("inconclusive", `too noisy to decide: ${scatter}; as bad as allowed ${percent(pInside)}`);
  }
  const improved = pBetter <= falseAlarm && worseBy <= 1 / margin;
  const how = improved ? "better" : "no worse than allowed";
  return found("no-regression", `${how}: typically ${times(worseBy)}, allowed ${times(margin)}`, improved);
};

const exp = (ln: number | null | undefined): number | null => (ln === null || ln === undefined ? null : Math.exp(ln));

type Seen = { measurement: GateMeasurement; base: number[]; head: number[]; differences: number[] };

const seenOf = (pairs: readonly Pair[], measurement: GateMeasurement): Seen => {
  const both = pairs.flatMap(({ base, head }) => {
    const [was, is] = [base[measurement], head[measurement]];
    return was === null || is === null ? [] : [{ was, is }];
  });
  return {
    measurement,
    base: both.map(({ was }) => was),
    head: both.map(({ is }) => is),
    differences: both.map(({ was, is }) => logWorse(measurement, was, is)),
  };
};

/** Neither side ever had a value: the story has nothing of the kind. */
const isAbsent = (pairs: readonly Pair[], measurement: GateMeasurement): boolean =>
  pairs.length > 0 && pairs.every(({ base, head }) => base[measurement] === null && head[measurement] === null);

const absent = (measurement: GateMeasurement, margin: number): Comparison => ({
  measurement,
  margin,
  verdict: "not-measured",
  improved: false,
  pairs: 0,
  pWorse: 1,
  pInside: 1,
  base: null,
  head: null,
  worseBy: null,
  low: null,
  high: null,
  differences: [],
  tail: 0,
  reason: "no block has enough calls of the kind to measure it by",
});

/** One comparison for each measurement, in their order. Throws `RangeError` beyond `PAIRS_MAX` pairs. */
export const comparePairs = (pairs: readonly Pair[], policy: GatePolicy = GATE_POLICY): Comparison[] => {
  if (pairs.length > PAIRS_MAX) throw new RangeError(`at most ${PAIRS_MAX} pairs, not ${pairs.length}`);
  const present = policy.measurements.filter((name) => !isAbsent(pairs, name));
  const seen = present.map((name) => seenOf(pairs, name));
  const opposite = (differences: readonly number[]): number[] => differences.map((difference) => -difference);
  const pWorse = holm(seen.map(({ differences }) => signedRankP(differences)));
  const pBetter = holm(seen.map(({ differences }) => signedRankP(opposite(differences))));
  const alone = policy.falseAlarm / policy.looks / Math.max(1, present.length);
  // Fewer could not be distinguished from chance even if every pair said the same.
  let pairsNeeded = 1;
  while (smallestP(pairsNeeded) > alone) pairsNeeded += 1;
  const judged = seen.map(({ measurement, base, head, differences }, at) => {
    const margin = policy.margins[measurement];
    const limit = Math.log(margin);
    const interval = typicalInterval(differences);
    const tested: Tested = {
      measurement,
      margin,
      pairs: differences.length,
      base: median(base),
      head: median(head),
      worseBy: exp(typicalDifference(differences)),
      low: exp(interval?.low),
      high: exp(interval?.high),
      differences,
      tail: alone,
      pWorse: pWorse[at]!,
      pBetter: pBetter[at]!,
      pInside: signedRankP(differences.map((difference) => limit - difference)),
    };
    return judge(tested, policy, pairsNeeded);
  });
  return policy.measurements.map(
    (name) => judged.find(({ measurement }) => measurement === name) ?? absent(name, policy.margins[name]),
  );
};

/** The smallest ratio that these pairs would have shown as a regression nine times in ten; `null` when they never could. */
export const smallestSeen = ({ differences, tail, margin }: Comparison): number | null =>
  exp(smallestEffect(differences, tail, Math.log(margin)));

/** One regression is enough; a pass needs all that could be measured, and something has to be. */
export const verdictOf = (comparisons: readonly Comparison[]): GateVerdict => {
  const measured = comparisons.filter(({ verdict }) => verdict !== "not-measured");
  if (measured.some(({ verdict }) => verdict === "regression")) return "regression";
  const passes = measured.length > 0 && measured.every(({ verdict }) => verdict === "no-regression");
  return passes ? "no-regression" : "inconclusive";
};

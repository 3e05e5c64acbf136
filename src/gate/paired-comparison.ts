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
import { ascending, type Interval, median, quantile, quantileInterval } from "../history/statistics/statistics.ts";
import { saltOf, whole } from "../workload/random.ts";
import { type BlockValues, GATE_MEASUREMENTS, type GateMeasurement, logWorse, MEASUREMENT_FACTS } from "./block.ts";

// The exact one-sided Wilcoxon signed-rank test, with its estimate and interval. @stdlib/stats-wilcoxon takes a
// normal approximation as soon as two differences tie or one is zero, as short blocks often do. Source: Hollander,
// Wolfe & Chicken, "Nonparametric Statistical Methods", 3rd ed. (2014), sections 3.1 to 3.3.

/** More pairs than this do not fit the gate's design, and counts would exceed the exact whole numbers of a double. */
export const PAIRS_MAX = 50;

/** Ranks of all values, doubled so that the mean ranks of ties are whole. */
export const doubledRanks = (values: readonly number[]): number[] =>
  values.map((value) => {
    const below = values.filter((other) => other < value).length;
    const equal = values.filter((other) => other === value).length;
    return 2 * below + equal + 1;
  });

/** `ways[s]`: the number of choices of signs whose positive ranks add up to s. */
const waysOf = (ranks: readonly number[]): number[] => {
  const total = ranks.reduce((sum, rank) => sum + rank, 0);
  const ways = new Array<number>(total + 1).fill(0);
  ways[0] = 1;
  for (const rank of ranks) for (let sum = total; sum >= rank; sum -= 1) ways[sum]! += ways[sum - rank]!;
  return ways;
};

/**
 * The probability of a sum of positive ranks at least this large, if each difference is as likely positive as negative:
 * small if the differences lie above zero. Exact for any ties: all 2^n choices of signs are counted. Zeros are left
 * out; 1 if nothing is left. Throws `RangeError` beyond `PAIRS_MAX` differences and for what is not a number.
 */
export const signedRankP = (differences: readonly number[]): number => {
  if (differences.some(Number.isNaN)) throw new RangeError("a difference is not a number");
  if (differences.length > PAIRS_MAX) throw new RangeError(`at most ${PAIRS_MAX} pairs, not ${differences.length}`);
  const unequal = differences.filter((difference) => difference !== 0);
  const ranks = doubledRanks(unequal.map(Math.abs));
  const seen = ranks.reduce((sum, rank, at) => sum + (unequal[at]! > 0 ? rank : 0), 0);
  const atLeast = waysOf(ranks)
    .slice(seen)
    .reduce((sum, ways) => sum + ways, 0);
  return atLeast / 2 ** ranks.length;
};

export const smallestP = (pairs: number): number => 2 ** -pairs;

/** The means of all pairs of differences (Walsh averages), ascending. */
const pairMeans = (differences: readonly number[]): Float64Array =>
  ascending(differences.flatMap((one, at) => differences.slice(at).map((other) => (one + other) / 2)));

/** The Hodges-Lehmann estimate: the median of `pairMeans`; `null` without differences. */
export const typicalDifference = (differences: readonly number[]): number | null => median(pairMeans(differences));

/** The largest s with P(sum of positive ranks <= s) <= `tail`, for `n` untied differences; -1 if there is none. */
const lowestSums = (n: number, tail: number): number => {
  const ways = waysOf(Array.from({ length: n }, (_, at) => at + 1));
  let below = 0;
  const first = ways.findIndex((count) => {
    below += count;
    return below / 2 ** n > tail;
  });
  return first === -1 ? ways.length - 1 : first - 1;
};

const TAIL = (1 - 0.95) / 2;

/** The 95 % interval of the typical difference, between two of the ordered `pairMeans`; `null` below 6 differences. */
export const typicalInterval = (differences: readonly number[]): Interval | null => {
  const means = pairMeans(differences);
  const sums = lowestSums(differences.length, TAIL);
  if (differences.length === 0 || sums < 0) return null;
  return { low: means[sums]!, high: means[means.length - 1 - sums]! };
};

const DRAWS = 400;
const POWER = 0.9;
const SEED = 1;
const SALT = saltOf("smallest effect");

/**
 * The smallest shift that pairs with this scatter would show as a regression nine times in ten: above zero by the test
 * at `tail`, and typically at least `margin` (both as ln of a ratio). `null` if so few pairs never show one. The pairs
 * are resampled (bootstrap: Efron & Tibshirani, 1993, section 25.5); the shift of each draw is exact, by the ordered
 * means of its differences.
 */
const smallestEffect = (differences: readonly number[], tail: number, margin: number): number | null => {
  const n = differences.length;
  const sums = lowestSums(n, tail);
  const typical = typicalDifference(differences);
  if (n < 2 || sums < 0 || typical === null) return null;
  // A bootstrap sample varies less than the population by this factor.
  const widened = Math.sqrt(n / (n - 1));
  const around = differences.map((difference) => (difference - typical) * widened);
  const shifts = Array.from({ length: DRAWS }, (_, draw) => {
    const drawn = around.map((_, at) => around[whole(SEED, draw * n + at, SALT, n)] as number);
    const means = pairMeans(drawn);
    return Math.max(-(means[sums] as number), margin - (median(means) as number));
  });
  return quantile(shifts, POWER);
};

/**
 * Adjusts the p-values of several measurements: the chance that any falls below alpha by accident is at most alpha.
 * Source: Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics 6 (1979).
 */
export const holm = (ps: readonly number[]): number[] => {
  const adjusted: number[] = [];
  let least = 0;
  const ascending = ps.map((p, at) => ({ p, at })).sort((a, b) => a.p - b.p);
  for (const [before, { p, at }] of ascending.entries()) {
    least = Math.max(least, Math.min(1, p * (ps.length - before)));
    adjusted[at] = least;
  }
  return adjusted;
};

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
  /** How much worse still passes, as a ratio above 1, where it is not as in `MEASUREMENT_FACTS`. */
  margins: {} as Readonly<Partial<Record<string, number>>>,
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
    const margin = policy.margins[measurement] ?? MEASUREMENT_FACTS[measurement].margin;
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

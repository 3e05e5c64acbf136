/**
 * The exact one-sided Wilcoxon signed-rank test, with its estimate and interval. @stdlib/stats-wilcoxon takes a normal
 * approximation as soon as two differences tie or one is zero, as short blocks often do.
 *
 * Source: Hollander, Wolfe & Chicken, "Nonparametric Statistical Methods", 3rd ed. (2014), sections 3.1 to 3.3.
 */
import { type Interval, median, quantile } from "../history/statistics/statistics.ts";
import { saltOf, whole } from "../workload/random.ts";

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
const pairMeans = (differences: readonly number[]): number[] =>
  differences.flatMap((one, at) => differences.slice(at).map((other) => (one + other) / 2)).sort((a, b) => a - b);

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
export const smallestEffect = (differences: readonly number[], tail: number, margin: number): number | null => {
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
    return Math.max(-(means[sums] as number), margin - (typicalDifference(drawn) as number));
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

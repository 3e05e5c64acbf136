/**
 * The exact one-sided Wilcoxon signed-rank test, and the estimate that belongs to it. Written here and not taken from
 * @stdlib/stats-wilcoxon (0.2.3): that one brings 241 packages and 26 MB for one table, and leaves the exact distribution for
 * a normal approximation as soon as two differences tie or one is zero, which short blocks often do. What it would decide
 * by approximation is decided here by counting.
 *
 * Source: Hollander, Wolfe & Chicken, "Nonparametric Statistical Methods", 3rd ed. (2014), sections 3.1 and 3.2.
 */

/** More pairs than this do not fit the gate's design, and counts would leave the whole numbers of a double. */
export const PAIRS_MAX = 50;

/** Ranks of the sizes, doubled so that the mean ranks of ties are whole; zeros have been left out. */
const doubledRanks = (sizes: readonly number[]): number[] => {
  const order = sizes.map((size, at) => ({ size, at })).sort((a, b) => a.size - b.size);
  const ranks: number[] = [];
  for (let from = 0; from < order.length; ) {
    let to = from;
    while (to + 1 < order.length && order[to + 1]!.size === order[from]!.size) to += 1;
    for (let i = from; i <= to; i += 1) ranks[order[i]!.at] = from + to + 2;
    from = to + 1;
  }
  return ranks;
};

/**
 * How likely a sum of positive ranks at least this large is, if each difference were as likely to be positive as negative:
 * small when the differences lie above zero. Exact for any ties: all 2^n choices of signs are counted. Zeros say nothing and
 * are left out; 1 when nothing is left. Throws `RangeError` beyond `PAIRS_MAX` differences and for what is not a number.
 */
export const signedRankP = (differences: readonly number[]): number => {
  if (differences.some(Number.isNaN)) throw new RangeError("a difference is not a number");
  if (differences.length > PAIRS_MAX) throw new RangeError(`at most ${PAIRS_MAX} pairs, not ${differences.length}`);
  const unequal = differences.filter((difference) => difference !== 0);
  const ranks = doubledRanks(unequal.map(Math.abs));
  const total = ranks.reduce((sum, rank) => sum + rank, 0);
  const seen = ranks.reduce((sum, rank, at) => sum + (unequal[at]! > 0 ? rank : 0), 0);
  // ways[s]: in how many choices of signs the positive ranks add up to s.
  const ways = new Array<number>(total + 1).fill(0);
  ways[0] = 1;
  let reached = 0;
  for (const rank of ranks) {
    reached += rank;
    for (let sum = reached; sum >= rank; sum -= 1) ways[sum]! += ways[sum - rank]!;
  }
  let atLeast = 0;
  for (let sum = seen; sum <= total; sum += 1) atLeast += ways[sum]!;
  return atLeast / 2 ** ranks.length;
};

/** The smallest value that `signedRankP` can take with so many pairs. */
export const smallestP = (pairs: number): number => 2 ** -pairs;

/** The means of all pairs of differences, each with itself too, ascending. */
export const pairMeans = (differences: readonly number[]): number[] =>
  differences.flatMap((one, at) => differences.slice(at).map((other) => (one + other) / 2)).sort((a, b) => a - b);

/** Hodges-Lehmann: the median of `pairMeans`. `null` of nothing. */
export const typicalDifference = (differences: readonly number[]): number | null => {
  const means = pairMeans(differences);
  const middle = means.length / 2;
  if (means.length === 0) return null;
  return Number.isInteger(middle) ? (means[middle - 1]! + means[middle]!) / 2 : means[Math.floor(middle)]!;
};

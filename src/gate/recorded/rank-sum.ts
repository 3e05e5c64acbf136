/**
 * The exact one-sided rank-sum test for two groups of runs, which are not paired.
 *
 * Source: Hollander, Wolfe & Chicken, "Nonparametric Statistical Methods", 3rd ed. (2014), section 4.1. Ties get their mean rank,
 * and all choices of the second group's places are counted.
 */

/** Doubled mean ranks of all values together, in their order. */
const doubledRanks = (values: readonly number[]): number[] =>
  values.map((value) => {
    const below = values.filter((other) => other < value).length;
    const equal = values.filter((other) => other === value).length;
    return 2 * below + equal + 1;
  });

/** How likely ranks of `second` as high as these are, if which run belongs to which group were chance; 1 with an empty group. */
export const rankSumP = (first: readonly number[], second: readonly number[]): number => {
  const ranks = doubledRanks([...first, ...second]);
  const seen = ranks.slice(first.length).reduce((sum, rank) => sum + rank, 0);
  // ways[k][s]: choices of k runs whose ranks add up to s.
  const total = ranks.reduce((sum, rank) => sum + rank, 0);
  const ways = Array.from({ length: second.length + 1 }, () => new Array<number>(total + 1).fill(0));
  ways[0]![0] = 1;
  for (const rank of ranks) {
    for (let k = second.length; k > 0; k -= 1) {
      for (let sum = total; sum >= rank; sum -= 1) ways[k]![sum]! += ways[k - 1]![sum - rank]!;
    }
  }
  const last = ways[second.length]!;
  const all = last.reduce((sum, n) => sum + n, 0);
  return last.slice(seen).reduce((sum, n) => sum + n, 0) / all;
};

/** The smallest value of `rankSumP` for groups of these sizes: one choice of all. */
export const smallestRankSumP = (first: number, second: number): number => {
  let p = 1;
  for (let k = 1; k <= second; k += 1) p *= k / (first + k);
  return p;
};

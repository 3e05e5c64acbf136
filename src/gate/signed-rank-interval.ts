/**
 * The interval that belongs to the exact signed-rank test: between two of the ordered means of all pairs of differences.
 *
 * Source: Hollander, Wolfe & Chicken, "Nonparametric Statistical Methods", 3rd ed. (2014), section 3.3.
 */
import type { Interval } from "../history/statistics/statistics.ts";
import { pairMeans } from "./signed-rank.ts";

/** The largest sum of ranks that is at most as likely as `tail`, of `n` untied differences; -1 when there is none. */
export const lowestSums = (n: number, tail: number): number => {
  const total = (n * (n + 1)) / 2;
  const ways = new Array<number>(total + 1).fill(0);
  ways[0] = 1;
  for (let rank = 1; rank <= n; rank += 1) {
    for (let sum = total; sum >= rank; sum -= 1) ways[sum]! += ways[sum - rank]!;
  }
  let below = 0;
  for (let sum = 0; sum <= total; sum += 1) {
    below += ways[sum]!;
    if (below / 2 ** n > tail) return sum - 1;
  }
  return total;
};

/** In which the typical difference lies with at least this confidence; `null` when they are too few for it (below 6 for 95 %). */
export const typicalInterval = (differences: readonly number[], confidence = 0.95): Interval | null => {
  const means = pairMeans(differences);
  const sums = lowestSums(differences.length, (1 - confidence) / 2);
  if (differences.length === 0 || sums < 0) return null;
  return { low: means[sums]!, high: means[means.length - 1 - sums]! };
};

/**
 * What a comparison could have seen: without that figure, "nothing found" says as much about the pairs as about the head.
 *
 * The pairs are drawn again and again from themselves (bootstrap), and for each draw the shift is found from which on it would
 * have been called a regression. That shift is exact, because the signed-rank test is turned round by the ordered means of its
 * differences. Source: Efron & Tibshirani, "An Introduction to the Bootstrap" (1993), section 25.5.
 */
import { quantile } from "../history/statistics/statistics.ts";
import { saltOf, whole } from "../workload/random.ts";
import { pairMeans, typicalDifference } from "./signed-rank.ts";
import { lowestSums } from "./signed-rank-interval.ts";

const DRAWS = 400;
const POWER = 0.9;
const SEED = 1;
const SALT = saltOf("smallest effect");

/**
 * The smallest shift that would have been called a regression nine times in ten, by pairs that scatter as these do: surely
 * above zero at `tail`, and typically at least `margin` (both shifts as ln of a ratio). `null` when so few pairs never could.
 */
export const smallestEffect = (differences: readonly number[], tail: number, margin: number): number | null => {
  const n = differences.length;
  const sums = lowestSums(n, tail);
  const typical = typicalDifference(differences);
  if (n < 2 || sums < 0 || typical === null) return null;
  // What is drawn from a sample scatters less than what the sample was drawn from.
  const widened = Math.sqrt(n / (n - 1));
  const around = differences.map((difference) => (difference - typical) * widened);
  const shifts = Array.from({ length: DRAWS }, (_, draw) => {
    const drawn = around.map((_, at) => around[whole(SEED, draw * n + at, SALT, n)] as number);
    const means = pairMeans(drawn);
    return Math.max(-(means[sums] as number), margin - (typicalDifference(drawn) as number));
  });
  return quantile(
    shifts.sort((a, b) => a - b),
    POWER,
  );
};

/** The formulas of measurements and their uncertainty, each with its source. Intervals are in closed form or exact. */
import { binomialQuantiles, shareBelow, Z_95 } from "./distributions.ts";

const CONFIDENCE = 0.95;

/** A closed interval, in the unit of what it belongs to. */
export type Interval = { low: number; high: number };

/** Arithmetic mean; `null` of nothing. */
export const mean = (values: readonly number[]): number | null => {
  if (values.length === 0) return null;
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
};

const assertShare = (p: number): void => {
  if (!(p >= 0 && p <= 1)) throw new RangeError(`a quantile is asked for by a share from 0 to 1, not by ${p}`);
};

/**
 * Sample quantile, type 7 (linear between order statistics; the default of R and NumPy). Source: Hyndman & Fan, "Sample
 * Quantiles in Statistical Packages", The American Statistician 50 (1996). `sorted` ascends; `null` of nothing.
 */
export const quantile = (sorted: readonly number[], p: number): number | null => {
  assertShare(p);
  if (sorted.length === 0) return null;
  const at = (sorted.length - 1) * p;
  const below = Math.floor(at);
  const low = sorted[below]!;
  const high = sorted[Math.min(below + 1, sorted.length - 1)]!;
  return low + (at - below) * (high - low);
};

/** Of values in any order; `null` of nothing. */
export const median = (values: readonly number[]): number | null =>
  quantile(
    values.toSorted((a, b) => a - b),
    0.5,
  );

/**
 * Ranks (1 is the smallest sample) between which the true quantile lies with at least 95 % confidence, whatever the
 * distribution, both tails at most 2.5 %. `null` when `n` samples are too few to bound it on both sides: below 6 for the
 * median, 368 for p99, 3688 for p999. Source: Hahn & Meeker, "Statistical Intervals" (1991), section 5.2; David &
 * Nagaraja, "Order Statistics" (2003), section 7.1. It assumes independent samples, which calls that queue behind one
 * another are not: batched-histogram.ts uses their effective sample size.
 */
export const quantileRanks = (n: number, p: number): Interval | null => {
  assertShare(p);
  if (n < 1 || p === 0 || p === 1) return null;
  const tail = (1 - CONFIDENCE) / 2;
  const [low, high] = binomialQuantiles(n, p, [tail, 1 - tail]) as [number, number];
  // P(Bin < low) < tail, so rank `low` is the largest that is safe below; rank `high + 1` the smallest that is above.
  return low < 1 || high + 1 > n ? null : { low, high: high + 1 };
};

/** How many independent calls it takes at least for `quantileRanks` of a quantile between 0 and 1. */
export const callsForInterval = (p: number): number => {
  const tail = (1 - CONFIDENCE) / 2;
  // All below the quantile, or none: the smaller of its two sides decides.
  return Math.ceil(Math.log(tail) / Math.log(Math.max(p, 1 - p)));
};

/** The samples at `quantileRanks`. `sorted` ascends; `null` when they are too few. */
export const quantileInterval = (sorted: readonly number[], p: number): Interval | null => {
  const ranks = quantileRanks(sorted.length, p);
  return ranks === null ? null : { low: sorted[ranks.low - 1]!, high: sorted[ranks.high - 1]! };
};

/**
 * 95 % score interval of a proportion, within [0, 1] also for 0 and for all of `n`. Source: Wilson, "Probable Inference,
 * the Law of Succession, and Statistical Inference", JASA 22 (1927). `null` for `n` = 0.
 */
export const wilsonInterval = (hits: number, n: number): Interval | null => {
  if (!(hits >= 0 && hits <= n)) throw new RangeError(`${hits} of ${n} is not a proportion`);
  if (n === 0) return null;
  const share = hits / n;
  const z2 = Z_95 * Z_95;
  const centre = (share + z2 / (2 * n)) / (1 + z2 / n);
  const half = (Z_95 / (1 + z2 / n)) * Math.sqrt((share * (1 - share)) / n + z2 / (4 * n * n));
  // At the ends the formula gives exactly 0 or 1, up to rounding.
  return { low: hits === 0 ? 0 : Math.max(0, centre - half), high: hits === n ? 1 : Math.min(1, centre + half) };
};

/** The share at which `hits` or more of `n` (`hits` or fewer: `above`) have just so little probability. */
const shareAtTail = (hits: number, n: number, tail: number, above: boolean): number => {
  let [low, high] = [0, 1];
  for (let halved = 0; halved < 60; halved++) {
    const p = (low + high) / 2;
    const probability = above ? shareBelow(n, p, hits) : 1 - shareBelow(n, p, hits - 1);
    if (probability < tail === above) high = p;
    else low = p;
  }
  return (low + high) / 2;
};

/**
 * Exact 95 % interval of a proportion: never too narrow, also for few calls and small shares, where Wilson's is. Source:
 * Clopper & Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial", Biometrika 26 (1934).
 * `null` for `n` = 0.
 */
export const exactInterval = (hits: number, n: number): Interval | null => {
  if (!(hits >= 0 && hits <= n)) throw new RangeError(`${hits} of ${n} is not a proportion`);
  if (n === 0) return null;
  const tail = (1 - CONFIDENCE) / 2;
  return {
    low: hits === 0 ? 0 : shareAtTail(hits, n, tail, false),
    high: hits === n ? 1 : shareAtTail(hits, n, tail, true),
  };
};

/**
 * Fairness of shares from 1/n (one has all) to 1 (all have the same). Source: Jain, Chiu & Hawe, "A Quantitative Measure
 * of Fairness", DEC-TR-301 (1984). `null` where all are 0.
 */
export const jainIndex = (shares: readonly number[]): number | null => {
  let largest = 0;
  for (const share of shares) {
    if (!(share >= 0)) throw new RangeError(`a share is not negative, but ${share} came`);
    largest = Math.max(largest, share);
  }
  if (largest === 0) return null;
  let sum = 0;
  let squares = 0;
  // The index does not depend on the scale; dividing by the largest keeps the squares from overflowing.
  for (const share of shares) {
    sum += share / largest;
    squares += (share / largest) ** 2;
  }
  return Math.min(1, (sum * sum) / (shares.length * squares));
};

/**
 * What each would get of `served` in all, if none got more than it asked for and nobody with less had to wait for one with more
 * (max-min fairness; Bertsekas & Gallager, "Data Networks", section 6.5.2).
 */
const fairShares = (offered: readonly number[], served: number): number[] => {
  const shares = new Array<number>(offered.length).fill(0);
  let left = served;
  let open = offered.length;
  for (const at of offered.map((_, i) => i).sort((a, b) => (offered[a] as number) - (offered[b] as number))) {
    const share = Math.min(offered[at] as number, left / open);
    shares[at] = share;
    left -= share;
    open -= 1;
  }
  return shares;
};

/** Jain's index over what each was served of its max-min fair share; what was asked for may differ. */
export const fairnessIndex = (each: readonly { offered: number; served: number }[]): number | null => {
  const all = each.reduce((sum, { served }) => sum + served, 0);
  const due = fairShares(
    each.map(({ offered }) => offered),
    all,
  );
  return jainIndex(each.flatMap(({ served }, at) => ((due[at] as number) > 0 ? [served / (due[at] as number)] : [])));
};

/** How many of some spans lie over one moment, at most; one that ends where another begins does not count beside it. */
export const mostAtOnce = (spans: Iterable<readonly [from: number, to: number]>): number => {
  const edges: [at: number, change: 1 | -1][] = [];
  for (const [from, to] of spans) edges.push([from, 1], [to, -1]);
  edges.sort(([one, up], [next, down]) => one - next || up - down);
  let [open, most] = [0, 0];
  for (const [, change] of edges) {
    open += change;
    most = Math.max(most, open);
  }
  return most;
};

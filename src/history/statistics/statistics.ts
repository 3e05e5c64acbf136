/**
 * The formulas of measurements and their uncertainty, each with its source, written here because packages with them bring hundreds
 * of others. Intervals are in closed form or exact.
 */

/** Two-sided 95 % point of the standard normal distribution. */
export const Z_95 = 1.959963984540054;

/** The value between 0 and `high` from which on `isAbove` is true. */
export const bisect = (high: number, isAbove: (value: number) => boolean): number => {
  let [low, top] = [0, high];
  for (let halved = 0; halved < 60; halved++) {
    const middle = (low + top) / 2;
    if (isAbove(middle)) top = middle;
    else low = middle;
  }
  return (low + top) / 2;
};

// The binomial distribution, by sums of terms relative to the largest one: no factorial is needed, and n may be in the millions.

/** Terms this far below the largest one no longer change a sum of doubles. */
const NEGLIGIBLE = 1e-20;

const termsOf = (n: number, p: number): { first: number; terms: number[]; total: number } => {
  const mode = Math.min(n, Math.floor((n + 1) * p));
  const odds = p / (1 - p);
  /** The terms on one side of the largest one, each computed by its ratio to the one before. */
  const side = (count: number, ratio: (k: number) => number): number[] => {
    const terms: number[] = [];
    for (let i = 0, term = ratio(0); i < count && term >= NEGLIGIBLE; i++, term *= ratio(i)) terms.push(term);
    return terms;
  };
  const below = side(mode, (i) => (mode - i) / ((n - mode + i + 1) * odds));
  const above = side(n - mode, (i) => ((n - mode - i) * odds) / (mode + i + 1));
  const terms = [...below.toReversed(), 1, ...above];
  return { first: mode - below.length, terms, total: terms.reduce((sum, term) => sum + term, 0) };
};

/** The smallest k with P(Bin(n, p) <= k) >= each of `shares`, which ascend. */
export const binomialQuantiles = (n: number, p: number, shares: readonly number[]): number[] => {
  const { first, terms, total } = termsOf(n, p);
  return shares.map((share) => {
    let sum = 0;
    for (const [i, term] of terms.entries()) {
      sum += term;
      if (sum >= share * total) return first + i;
    }
    return n;
  });
};

/** P(Bin(n, p) <= k). */
export const shareBelow = (n: number, p: number, k: number): number => {
  if (k >= n) return 1;
  const { first, terms, total } = termsOf(n, p);
  let sum = 0;
  for (const term of terms.slice(0, Math.max(0, k - first + 1))) sum += term;
  return sum / total;
};

/**
 * The share of Student's t distribution within `t` of zero, on both sides together. Source: Abramowitz & Stegun, "Handbook of
 * Mathematical Functions" (1964), 26.7.3 and 26.7.4, finite sums that are exact.
 */
export const studentWithin = (t: number, freedom: number): number => {
  const angle = Math.atan(t / Math.sqrt(freedom));
  const cosine = Math.cos(angle);
  const isOdd = freedom % 2 === 1;
  let term = isOdd ? cosine : 1;
  let sum = freedom === 1 ? 0 : term;
  for (let k = isOdd ? 3 : 2; k <= freedom - 2; k += 2) {
    term *= ((k - 1) / k) * cosine * cosine;
    sum += term;
  }
  return isOdd ? (2 / Math.PI) * (angle + Math.sin(angle) * sum) : Math.sin(angle) * sum;
};

/** The t for which `confidence` of the distribution lies in [-t, t]. */
export const studentT = (freedom: number, confidence = 0.95): number => {
  if (!Number.isSafeInteger(freedom) || freedom < 1) throw new RangeError(`${freedom} are no degrees of freedom`);
  let high = 1;
  while (studentWithin(high, freedom) < confidence) high *= 2;
  return bisect(high, (t) => studentWithin(t, freedom) >= confidence);
};

/** Kolmogorov and Smirnov: the largest distance of a sample's distribution from the known one. `sorted` ascends, not empty. */
export const kolmogorovDistance = (sorted: readonly number[], below: (value: number) => number): number => {
  const n = sorted.length;
  if (n === 0) throw new RangeError("no sample to compare");
  return sorted.reduce((worst, value, i) => {
    const share = below(value);
    return Math.max(worst, share - i / n, (i + 1) / n - share);
  }, 0);
};

/** Critical values of the limiting distribution, by significance (Smirnov, "Table for Estimating the Goodness of Fit", 1948). */
const LIMITS = { 0.05: 1.3581, 0.01: 1.6276, 0.001: 1.9495 } as const;

/**
 * The critical distance: a sample of `n` from the known distribution exceeds it with probability `significance`. Source:
 * Stephens, "Use of the Kolmogorov-Smirnov, Cramer-von Mises and Related Statistics", JRSS B 32 (1970), whose correction
 * holds from n = 5 on.
 */
export const kolmogorovLimit = (n: number, significance: keyof typeof LIMITS): number => {
  const root = Math.sqrt(n);
  return LIMITS[significance] / (root + 0.12 + 0.11 / root);
};

const CONFIDENCE = 0.95;

export type Interval = { low: number; high: number };

export const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

export const mean = (values: readonly number[]) => (values.length === 0 ? null : sumOf(values) / values.length);

const assertShare = (p: number): void => {
  if (!(p >= 0 && p <= 1)) throw new RangeError(`expected a quantile from 0 to 1, got ${p}`);
};

/** Several times as fast as a sort that calls a function for each comparison. */
export const ascending = (values: Iterable<number>): Float64Array => new Float64Array(values).sort();

/**
 * Sample quantile of values in any order, type 7 (linear between order statistics; the default of R and NumPy). Source: Hyndman
 * & Fan, "Sample Quantiles in Statistical Packages", The American Statistician 50 (1996). `null` without values.
 */
export const quantile = (values: readonly number[] | Float64Array, p: number): number | null => {
  assertShare(p);
  if (values.length === 0) return null;
  const sorted = ascending(values);
  const at = (sorted.length - 1) * p;
  const below = Math.floor(at);
  const low = sorted[below]!;
  const high = sorted[Math.min(below + 1, sorted.length - 1)]!;
  return low + (at - below) * (high - low);
};

export const median = (values: readonly number[] | Float64Array): number | null => quantile(values, 0.5);

/**
 * Ranks (1 is the smallest sample) between which the true quantile lies with at least 95 % confidence, whatever the
 * distribution, both tails at most 2.5 %. `null` when `n` samples are too few to bound it on both sides: below 6 for the
 * median, 368 for p99, 3688 for p999. Source: Hahn & Meeker, "Statistical Intervals" (1991), section 5.2. It assumes
 * independent samples, which calls that queue are not: histogram.ts uses their effective sample size.
 */
export const quantileRanks = (n: number, p: number): Interval | null => {
  assertShare(p);
  if (n < 1 || p === 0 || p === 1) return null;
  const tail = (1 - CONFIDENCE) / 2;
  const [low, high] = binomialQuantiles(n, p, [tail, 1 - tail]) as [number, number];
  // P(Bin < low) < tail, so rank `low` is the largest that is safe below; rank `high + 1` the smallest that is above.
  return low < 1 || high + 1 > n ? null : { low, high: high + 1 };
};

/** The fewest independent calls for which `quantileRanks` bounds a quantile. */
export const callsForInterval = (p: number): number => {
  const tail = (1 - CONFIDENCE) / 2;
  // n calls bound a quantile if it is unlikely that all of them lie below it, and that all lie above it.
  return Math.ceil(Math.log(tail) / Math.log(Math.max(p, 1 - p)));
};

/** The samples, in any order, at `quantileRanks`; `null` when they are too few. */
export const quantileInterval = (values: readonly number[], p: number): Interval | null => {
  const ranks = quantileRanks(values.length, p);
  if (ranks === null) return null;
  const sorted = ascending(values);
  return { low: sorted[ranks.low - 1]!, high: sorted[ranks.high - 1]! };
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

/**
 * Exact 95 % interval of a proportion: never too narrow, also for few calls and small shares, where Wilson's is. Source:
 * Clopper & Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial", Biometrika 26 (1934).
 * `null` for `n` = 0.
 */
export const exactInterval = (hits: number, n: number): Interval | null => {
  if (!(hits >= 0 && hits <= n)) throw new RangeError(`${hits} of ${n} is not a proportion`);
  if (n === 0) return null;
  const tail = (1 - CONFIDENCE) / 2;
  // The shares at which `hits` or more, and `hits` or fewer, have the probability `tail`.
  return {
    low: hits === 0 ? 0 : bisect(1, (p) => 1 - shareBelow(n, p, hits - 1) >= tail),
    high: hits === n ? 1 : bisect(1, (p) => shareBelow(n, p, hits) < tail),
  };
};

/** Fairness from 1/n (one has all) to 1 (all equal); `null` for zeros. Source: Jain, Chiu & Hawe, DEC-TR-301 (1984). */
export const jainIndex = (shares: readonly number[]): number | null => {
  const wrong = shares.find((share) => !(share >= 0));
  if (wrong !== undefined) throw new RangeError(`expected shares of 0 or more, got ${wrong}`);
  const largest = shares.reduce((most, share) => Math.max(most, share), 0);
  if (largest === 0) return null;
  // The index does not depend on the scale; dividing by the largest keeps the squares from overflowing.
  const scaled = shares.map((share) => share / largest);
  return Math.min(1, sumOf(scaled) ** 2 / (shares.length * sumOf(scaled.map((share) => share ** 2))));
};

/**
 * Jain's index over served calls divided by the max-min fair share, so that offered loads may differ: nobody is due more than it
 * asked for, and no share can grow without lowering a smaller one (Bertsekas & Gallager, "Data Networks", section 6.5.2).
 */
export const fairnessIndex = (each: readonly { offered: number; served: number }[]): number | null => {
  let left = sumOf(each.map(({ served }) => served));
  const ratios: number[] = [];
  for (const [at, { offered, served }] of each.toSorted((a, b) => a.offered - b.offered).entries()) {
    const due = Math.min(offered, left / (each.length - at));
    if (due > 0) ratios.push(served / due);
    left -= due;
  }
  return jainIndex(ratios);
};

/** The most spans that overlap at one moment; a span that ends where another begins does not overlap it. */
export const mostAtOnce = (spans: readonly (readonly [from: number, to: number])[]): number => {
  const ends = ascending(spans.map(([, to]) => to));
  let [begun, ended, most] = [0, 0, 0];
  for (const from of ascending(spans.map(([from]) => from))) {
    while ((ends[ended] as number) <= from) ended += 1;
    begun += 1;
    most = Math.max(most, begun - ended);
  }
  return most;
};

type SequentialPlan = {
  /** The share that is still good, and the share that is bad; between the two either answer may come. */
  good: number;
  bad: number;
  /** The probabilities that a good share is found bad, and a bad share good. */
  falseAlarm: number;
  missed: number;
};

/**
 * Wald, "Sequential Analysis" (1947), chapter 5: the sequential probability ratio test of a share. After `n` calls the share is
 * good up to `slope * n - accept` bad ones, bad from `slope * n + reject` on. Throws `RangeError` where the two shares are not
 * apart, or an error is not between 0 and 1/2.
 */
export const sequentialLines = ({ good, bad, falseAlarm, missed }: SequentialPlan) => {
  const isError = (share: number): boolean => share > 0 && share < 0.5;
  if (!(good > 0 && good < bad && bad < 1 && isError(falseAlarm) && isError(missed))) {
    throw new RangeError(`no sequential test of ${good} against ${bad} with errors ${falseAlarm} and ${missed}`);
  }
  const gain = Math.log((bad * (1 - good)) / (good * (1 - bad)));
  return {
    slope: Math.log((1 - good) / (1 - bad)) / gain,
    accept: Math.log((1 - falseAlarm) / missed) / gain,
    reject: Math.log((1 - missed) / falseAlarm) / gain,
  };
};

/**
 * The smallest number of independent calls that shows, with `over` misses among them, a share of misses below `limit`
 * with an error of at most `error`. Source: MLPerf Inference rules, "early stopping" (Reddi et al., "MLPerf Inference
 * Benchmark", ISCA 2020): for p99 at 99 % it takes 459 calls without a miss, 662 with one, 838 with two.
 */
export const callsToShow = (limit: number, over: number, error: number): number => {
  if (!(limit > 0 && limit < 1 && error > 0 && error < 1)) {
    throw new RangeError(`no number of calls shows a share below ${limit} with an error of ${error}`);
  }
  const isShown = (n: number): boolean => shareBelow(Math.floor(n), limit, over) <= error;
  let high = over + 1;
  while (!isShown(high)) high *= 2;
  return Math.round(bisect(high, isShown));
};

// Helpers for maps: `add` counts by key, `known` creates a missing value, `byFrequency` groups.

export const add = <K>(counts: Map<K, number>, key: K, n: number): void => {
  counts.set(key, (counts.get(key) ?? 0) + n);
};

export const known = <K, V>(all: Map<K, V>, key: K, make: () => V): V => {
  const found = all.get(key);
  if (found !== undefined) return found;
  const made = make();
  all.set(key, made);
  return made;
};

export const byFrequency = <K, T>(items: readonly T[], keyOf: (item: T) => K): [K, T[]][] =>
  [...Map.groupBy(items, keyOf)].sort(([, a], [, b]) => b.length - a.length);

/** Distributions for judging measurements, written here because packages with them bring hundreds of others. */

/** Two-sided 95 % point of the standard normal distribution. */
export const Z_95 = 1.959963984540054;

/** Returns the value between 0 and `high` from which on `isAbove` is true. */
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

type Terms = { first: number; terms: number[]; total: number };

const termsOf = (n: number, p: number): Terms => {
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
const within = (t: number, freedom: number): number => {
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

/**
 * The t for which `confidence` of the distribution lies in [-t, t]. Throws `RangeError` below one degree of freedom.
 */
export const studentT = (freedom: number, confidence = 0.95): number => {
  if (!Number.isSafeInteger(freedom) || freedom < 1) throw new RangeError(`${freedom} are no degrees of freedom`);
  let high = 1;
  while (within(high, freedom) < confidence) high *= 2;
  return bisect(high, (t) => within(t, freedom) >= confidence);
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

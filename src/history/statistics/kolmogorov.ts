/**
 * The Kolmogorov-Smirnov test of one sample against a known distribution. Written here because @stdlib/stats-kstest (0.2.3)
 * brings more than 300 packages with its companions for one maximum and one constant.
 */

/** Largest distance between the sample's distribution function and the known one. `sorted` ascends and is not empty. */
export const kolmogorovDistance = (sorted: readonly number[], below: (value: number) => number): number => {
  const n = sorted.length;
  if (n === 0) throw new RangeError("no sample to compare");
  return sorted.reduce((worst, value, i) => {
    const share = below(value);
    return Math.max(worst, share - i / n, (i + 1) / n - share);
  }, 0);
};

/** Of the limiting distribution, by significance (Smirnov, "Table for Estimating the Goodness of Fit", 1948). */
const LIMITS = { 0.05: 1.3581, 0.01: 1.6276, 0.001: 1.9495 } as const;

/**
 * The distance that a sample of `n` passes only so seldom though the distribution is the known one. Source: Stephens, "Use
 * of the Kolmogorov-Smirnov, Cramer-von Mises and Related Statistics", JRSS B 32 (1970), whose correction holds from n = 5 on.
 */
export const kolmogorovLimit = (n: number, significance: keyof typeof LIMITS): number => {
  const root = Math.sqrt(n);
  return LIMITS[significance] / (root + 0.12 + 0.11 / root);
};

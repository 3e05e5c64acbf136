/** A quantile over time, only where enough calls stand behind it: bins are joined until at least 5 lie above it. */
import { countOf, mergeSparse, quantileMs, type SparseBuckets } from "../../history/statistics/log-buckets.ts";

export const ABOVE_LEAST = 5;

export const isEnough = (n: number, p: number): boolean => n * (1 - p) >= ABOVE_LEAST - 1e-9;

const GAP_BINS = 3;

const breakAtGaps = (values: (number | null)[], bins: readonly SparseBuckets[]): void => {
  let empty = 0;
  for (let i = 0; i <= bins.length; i++) {
    if (bins[i]?.length === 0) {
      empty += 1;
      continue;
    }
    if (empty >= GAP_BINS) values.fill(null, i - empty, i);
    empty = 0;
  }
};

/** For each bin the quantile of the window that it is in, in milliseconds; `null` where there are too few. */
export const quantileOverTime = (bins: readonly SparseBuckets[], p: number): (number | null)[] => {
  const values: (number | null)[] = bins.map(() => null);
  let from = 0;
  let n = 0;
  for (const [i, bin] of bins.entries()) {
    n += countOf(bin);
    if (!isEnough(n, p)) continue;
    const value = quantileMs(mergeSparse(bins.slice(from, i + 1)), p);
    values.fill(value, from, i + 1);
    from = i + 1;
    n = 0;
  }
  breakAtGaps(values, bins);
  return values;
};

export const quantileIfEnough = (sparse: SparseBuckets, p: number): number | null =>
  isEnough(countOf(sparse), p) ? quantileMs(sparse, p) : null;

/**
 * Durations counted in logarithmic buckets, 16 for each power of two of microseconds, so that a value read back is within 2.2 % of
 * the one recorded: coarser than `Histogram`, and small enough for each bin of a series. Merging two loses nothing.
 */
import { add } from "./counts.ts";

const BUCKETS_PER_OCTAVE = 16;
/** The last bucket ends at 2^43 us, which are 101 days. */
const BUCKET_LAST = 43 * BUCKETS_PER_OCTAVE - 1;

/** Flat pairs `bucket, count`, ascending, without empty buckets; `[]` where nothing was recorded. */
export type SparseBuckets = number[];

/** The bucket of a duration; 0 below 1 us, also below zero (two clocks that differ by less than their error). */
export const bucketOf = (us: number): number => {
  if (!Number.isFinite(us)) throw new RangeError(`a duration is a finite number of microseconds, not ${us}`);
  return us <= 1 ? 0 : Math.min(BUCKET_LAST, Math.floor(Math.log2(us) * BUCKETS_PER_OCTAVE));
};

/** The lower edge of a bucket, in microseconds. */
export const bucketFromUs = (bucket: number): number => 2 ** (bucket / BUCKETS_PER_OCTAVE);

/** The geometric middle of a bucket, in milliseconds, which stands for all its values. */
export const bucketMs = (bucket: number): number => bucketFromUs(bucket + 0.5) / 1000;

export const sparseOf = (counts: Iterable<readonly [bucket: number, count: number]>): SparseBuckets =>
  [...counts].sort(([a], [b]) => a - b).flat();

export const mergeSparse = (some: Iterable<readonly number[]>): SparseBuckets => {
  const all = new Map<number, number>();
  for (const one of some) for (let i = 0; i + 1 < one.length; i += 2) add(all, one[i] as number, one[i + 1] as number);
  return sparseOf(all);
};

/** How many values were recorded. */
export const countOf = (sparse: readonly number[]): number =>
  sparse.reduce((n, value, i) => (i % 2 === 0 ? n : n + value), 0);

/** The value of nearest rank ceil(p n), in milliseconds; `null` while nothing was recorded. */
export const quantileMs = (sparse: readonly number[], p: number): number | null => {
  const rank = Math.max(1, Math.ceil(p * countOf(sparse) * (1 - 1e-12)));
  let seen = 0;
  for (let i = 0; i + 1 < sparse.length; i += 2) {
    seen += sparse[i + 1] as number;
    if (seen >= rank) return bucketMs(sparse[i] as number);
  }
  return null;
};

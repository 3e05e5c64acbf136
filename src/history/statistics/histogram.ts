/**
 * Many durations in bounded memory: a log-linear histogram in the manner of HdrHistogram (Tene). Whole microseconds below
 * 1024 are kept exactly; above, each power of two is cut into 512 equal buckets, so that a value read back is within
 * 1/1024 (0.1 %) of the one recorded. Two histograms merge into exactly the one that had recorded both, in any order.
 */

import { add } from "./statistics.ts";

/** Buckets per power of two. */
const SUB = 512;
const SUB_BITS = 9;
/** Values up to 2^53 - 1 us (285 years) fall into this many buckets. */
const BUCKETS_MAX = (54 - SUB_BITS) * SUB;

/** Largest relative error of a value read back from the histogram. */
export const HISTOGRAM_RELATIVE_ERROR = 1 / (2 * SUB);

const wholeOf = (us: number): number => Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.round(us)));

const bucketOf = (us: number): number => {
  if (us < 2 * SUB) return us;
  // Shifts work on 32 bits; half of a value lies at the same place of the octave below.
  if (us >= 2 ** 31) return SUB + bucketOf(Math.floor(us / 2));
  const bits = 31 - Math.clz32(us) - SUB_BITS;
  return bits * SUB + (us >> bits);
};

/** Smallest and largest whole value of a bucket. */
const edgesOf = (bucket: number): { low: number; high: number } => {
  if (bucket < 2 * SUB) return { low: bucket, high: bucket };
  const shift = Math.floor(bucket / SUB) - 1;
  const width = 2 ** shift;
  const low = (bucket - shift * SUB) * width;
  return { low, high: low + width - 1 };
};

/** JSON form. `counts` lists `[bucket, count]` of the buckets that are not empty, ascending. */
export type HistogramJson = {
  schema: "floodgate/histogram@2";
  unit: "us";
  n: number;
  sum: number;
  min: number | null;
  max: number | null;
  counts: [number, number][];
};

export class Histogram {
  #counts = new Map<number, number>();
  #n = 0;
  #sum = 0;
  #min = Number.POSITIVE_INFINITY;
  #max = Number.NEGATIVE_INFINITY;

  static of(values: Iterable<number>): Histogram {
    const histogram = new Histogram();
    for (const us of values) histogram.record(us);
    return histogram;
  }

  /**
   * Adds `count` times a duration in microseconds, rounded to whole ones. Below zero (two clocks that differ by less
   * than their error) it counts as zero. Throws `RangeError` for what is not a finite number.
   */
  record(us: number, count = 1): void {
    if (!Number.isFinite(us)) throw new RangeError(`a duration is a finite number of microseconds, not ${us}`);
    if (!Number.isSafeInteger(count) || count < 0) throw new RangeError(`a count is a whole number, not ${count}`);
    if (count === 0) return;
    const whole = wholeOf(us);
    add(this.#counts, bucketOf(whole), count);
    this.#n += count;
    this.#sum += whole * count;
    this.#min = Math.min(this.#min, whole);
    this.#max = Math.max(this.#max, whole);
  }

  /** Adds all of `other`, which stays as it is. */
  merge(other: Histogram): this {
    // A copy first: a histogram may be merged with itself.
    for (const [bucket, count] of [...other.#counts]) add(this.#counts, bucket, count);
    this.#sum += other.#sum;
    this.#n += other.#n;
    this.#min = Math.min(this.#min, other.#min);
    this.#max = Math.max(this.#max, other.#max);
    return this;
  }

  get n(): number {
    return this.#n;
  }

  /** The number of samples at or below a value in microseconds; all samples in the bucket of that value count. */
  countUpTo(us: number): number {
    const last = bucketOf(wholeOf(us));
    let count = 0;
    for (const [bucket, n] of this.#counts) if (bucket <= last) count += n;
    return count;
  }

  /** The sample at `rank` (1 is the smallest) lies in [low, high] for certain; `null` for a rank that no sample has. */
  atRank(rank: number): { low: number; value: number; high: number } | null {
    if (!(rank >= 1 && rank <= this.#n)) return null;
    let seen = 0;
    for (const [bucket, count] of this.#ascending()) {
      seen += count;
      if (seen < rank) continue;
      const edges = edgesOf(bucket);
      const low = Math.max(edges.low, this.#min);
      const high = Math.min(edges.high, this.#max);
      return { low, value: rank === 1 ? low : seen === this.#n && rank === seen ? high : (low + high) / 2, high };
    }
    return null;
  }

  /** The sample of nearest rank ceil(p n), in microseconds; `null` while nothing was recorded. */
  quantile(p: number): number | null {
    if (!(p >= 0 && p <= 1)) throw new RangeError(`expected a quantile from 0 to 1, got ${p}`);
    // 0.07 * 100 is 7.000000000000001 in doubles; without the allowance its rank would be 8.
    const rank = Math.max(1, Math.ceil(p * this.#n * (1 - 1e-12)));
    return this.atRank(rank)?.value ?? null;
  }

  /** In any order: the middle of each bucket, and its count. */
  *values(): Generator<{ us: number; count: number }> {
    for (const [bucket, count] of this.#counts) {
      const { low, high } = edgesOf(bucket);
      yield { us: (Math.max(low, this.#min) + Math.min(high, this.#max)) / 2, count };
    }
  }

  toJSON(): HistogramJson {
    const [min, max] = this.#n === 0 ? [null, null] : [this.#min, this.#max];
    const counts = this.#ascending();
    return { schema: "floodgate/histogram@2", unit: "us", n: this.#n, sum: this.#sum, min, max, counts };
  }

  /** Throws `RangeError` where the JSON is of another schema or contradicts itself. */
  static fromJSON(json: HistogramJson): Histogram {
    const histogram = new Histogram();
    if (json.schema !== "floodgate/histogram@2") throw new RangeError("expected a histogram of floodgate/histogram@2");
    for (const [bucket, count] of json.counts) {
      const valid = Number.isSafeInteger(bucket) && bucket >= 0 && bucket < BUCKETS_MAX && Number.isSafeInteger(count);
      if (!valid || count < 1) throw new RangeError(`bucket ${bucket} with count ${count} is not of a histogram`);
      add(histogram.#counts, bucket, count);
      histogram.#n += count;
    }
    if (histogram.#n !== json.n) throw new RangeError(`the buckets hold ${histogram.#n} values, not ${json.n}`);
    if (histogram.#n === 0) return histogram;
    const buckets = histogram.#ascending();
    const { min, max, sum } = json;
    if (min === null || max === null || bucketOf(min) !== buckets[0]![0] || bucketOf(max) !== buckets.at(-1)![0]) {
      throw new RangeError(`the buckets do not reach from ${min} to ${max}`);
    }
    [histogram.#sum, histogram.#min, histogram.#max] = [sum, min, max];
    return histogram;
  }

  #ascending(): [number, number][] {
    return [...this.#counts].sort(([a], [b]) => a - b);
  }
}

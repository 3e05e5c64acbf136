/**
 * Many durations in bounded memory: a log-linear histogram in the manner of HdrHistogram (Tene). Whole microseconds below
 * 1024 are kept exactly; above, each power of two is cut into 512 equal buckets, so that a value read back is within
 * 1/1024 (0.1 %) of the one recorded. Two histograms merge into exactly the one that had recorded both, in any order.
 */
import { add, type Interval, quantileRanks, studentT, Z_95 } from "./statistics.ts";

/** Buckets per power of two. */
const SUB = 512;
const SUB_BITS = 9;
/** Values up to 2^53 - 1 us (285 years) fall into this many buckets. */
const BUCKETS_MAX = (54 - SUB_BITS) * SUB;

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

// A histogram whose quantiles have intervals that also hold for correlated calls: a call that queues is slow because
// the one before it was. The stage is cut into batches of equal time; how much the share of calls at or below a
// quantile differs from batch to batch gives the effective sample size, and its order statistics give the interval.
// Sources: Heidelberger & Lewis, "Quantile Estimation in Dependent Sequences", Operations Research 32 (1984), for
// judging a quantile by the shares below it; Law & Kelton, "Simulation Modeling and Analysis", section 9.5, for batch
// means; von Neumann, "Distribution of the Ratio of the Mean Square Successive Difference to the Variance" (1941),
// for batches that are too short; Cochran, "Sampling Techniques", section 6.4, for batches of unequal size.

/** More batches than this are joined in pairs, so their number stays between half of this and this. */
const BATCHES_MAX = 64;
/** The fewest batches from which their variance is estimated. */
const BATCHES_MIN = 8;
const FIRST_BATCH_US = 1_000;
/** Adjacent batches are too short if they are correlated by more than this, in standard deviations. */
const CORRELATED = 0.5;
/** Calls whose variance exceeds that of independent ones by this factor come in bursts; a few bursts do not show the variance. */
const IN_BURSTS = 1.5;
const BURSTS_MIN = 10;

type Batch = { n: number; below: number };

const inPairs = (batches: readonly Batch[]): Batch[] =>
  Array.from({ length: Math.ceil(batches.length / 2) }, (_, i) => {
    const [first, second] = [batches[2 * i] as Batch, batches[2 * i + 1]];
    return second === undefined ? first : { n: first.n + second.n, below: first.below + second.below };
  });

/** The variance of the share divided by that of independent calls, at least 1. `areJoined`: shorter batches were correlated. */
const dispersionOf = (batches: readonly Batch[], n: number, share: number, areJoined = false): number => {
  const off = batches.map((batch) => batch.below - share * batch.n);
  const squares = off.reduce((sum, value) => sum + value * value, 0);
  const successive = off.reduce((sum, value, i) => sum + value * (off[i + 1] ?? 0), 0);
  const isCorrelated = squares > 0 && successive / squares > CORRELATED / Math.sqrt(batches.length);
  const joined = inPairs(batches);
  if (isCorrelated && joined.length >= BATCHES_MIN) return dispersionOf(joined, n, share, true);
  const count = batches.length;
  if (count < 2) return 1;
  const dispersion = ((count / (count - 1)) * squares) / n / (share * (1 - share));
  // Independent calls yield up to this value (one standard deviation of chi-square over its degrees of freedom).
  if (!areJoined && dispersion < 1 + Math.sqrt(2 / (count - 1))) return 1;
  const width = studentT(count - 1) / Z_95;
  return Math.max(1, dispersion * width * width);
};

export class BatchedHistogram {
  readonly whole = new Histogram();
  /** By batch number, which is the batch's first moment divided by `#batchUs`. */
  #batches = new Map<number, Histogram>();
  #batchUs = FIRST_BATCH_US;

  /** Calls may come in any order. */
  record(us: number, atUs: number): void {
    this.whole.record(us);
    this.#batchAt(atUs).record(us);
  }

  /** Adds durations of one span of time. From then on batches are no shorter than the span. */
  merge(all: Histogram, fromUs: number, spanUs: number): void {
    this.whole.merge(all);
    while (this.#batchUs < spanUs) this.#join();
    this.#batchAt(fromUs + spanUs / 2).merge(all);
  }

  /** The 95 % interval of a quantile, in microseconds, at edges of buckets; `null` when the effective sample is too small. */
  interval(p: number): Interval | null {
    const { whole } = this;
    if (quantileRanks(whole.n, p) === null) return null;
    const { worth, dispersion, bursts } = this.#about(whole.quantile(p) as number);
    const ranks = dispersion > IN_BURSTS && bursts < BURSTS_MIN ? null : quantileRanks(worth, p);
    if (ranks === null) return null;
    const scale = whole.n / worth;
    const low = whole.atRank(Math.max(1, Math.floor(ranks.low * scale)));
    const high = whole.atRank(Math.min(whole.n, Math.ceil(ranks.high * scale)));
    return low === null || high === null ? null : { low: low.low, high: high.high };
  }

  /** The effective sample size about the share of calls above a duration in microseconds. */
  worth(us: number): number {
    return this.#about(us).worth;
  }

  /** `bursts`: the batches that have a call above it. */
  #about(us: number): { worth: number; dispersion: number; bursts: number } {
    const { n } = this.whole;
    const share = this.whole.countUpTo(us) / n;
    if (n === 0 || share === 0 || share === 1) return { worth: n, dispersion: 1, bursts: 0 };
    const numbers = [...this.#batches.keys()];
    const first = Math.min(...numbers);
    const batches = Array.from({ length: Math.max(...numbers) - first + 1 }, (_, i): Batch => {
      const batch = this.#batches.get(first + i);
      return { n: batch?.n ?? 0, below: batch?.countUpTo(us) ?? 0 };
    });
    const dispersion = dispersionOf(batches, n, share);
    const bursts = batches.filter((batch) => batch.below < batch.n).length;
    return { worth: Math.max(1, Math.floor(n / dispersion)), dispersion, bursts };
  }

  #batchAt(atUs: number): Histogram {
    const at = Math.floor(atUs / this.#batchUs);
    const known = this.#batches.get(at);
    if (known !== undefined) return known;
    const batch = new Histogram();
    this.#batches.set(at, batch);
    const isTooMany = (numbers: readonly number[]) => Math.max(...numbers) - Math.min(...numbers) >= BATCHES_MAX;
    while (isTooMany([...this.#batches.keys()])) this.#join();
    return this.#batches.get(Math.floor(atUs / this.#batchUs)) ?? batch;
  }

  #join(): void {
    const joined = new Map<number, Histogram>();
    for (const [at, batch] of this.#batches) {
      const pair = Math.floor(at / 2);
      joined.set(pair, joined.get(pair)?.merge(batch) ?? batch);
    }
    this.#batches = joined;
    this.#batchUs *= 2;
  }
}

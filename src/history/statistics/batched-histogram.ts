/**
 * A histogram whose quantiles have intervals that also hold for correlated calls: a call that queues is slow because the one
 * before it was. The stage is cut into batches of equal time; how much the share of calls at or below a quantile differs from
 * batch to batch gives the effective sample size, and its order statistics give the interval.
 *
 * Sources: Heidelberger & Lewis, "Quantile Estimation in Dependent Sequences", Operations Research 32 (1984), for judging a
 * quantile by the shares below it; Law & Kelton, "Simulation Modeling and Analysis", section 9.5, for batch means; von
 * Neumann, "Distribution of the Ratio of the Mean Square Successive Difference to the Variance" (1941), for batches that
 * are too short; Cochran, "Sampling Techniques", section 6.4, for batches of unequal size.
 */

import { Histogram } from "./histogram.ts";
import { type Interval, quantileRanks, studentT, Z_95 } from "./statistics.ts";

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
    const worth = this.#worth(p);
    const ranks = worth === null ? null : quantileRanks(worth, p);
    if (worth === null || ranks === null) return null;
    const scale = whole.n / worth;
    const low = whole.atRank(Math.max(1, Math.floor(ranks.low * scale)));
    const high = whole.atRank(Math.min(whole.n, Math.ceil(ranks.high * scale)));
    return low === null || high === null ? null : { low: low.low, high: high.high };
  }

  /** The effective sample size about a quantile; `null` if too few bursts were seen. */
  #worth(p: number): number | null {
    const { n } = this.whole;
    const value = this.whole.quantile(p) as number;
    const share = this.whole.countUpTo(value) / n;
    if (share >= 1) return n;
    const numbers = [...this.#batches.keys()];
    const first = Math.min(...numbers);
    const batches = Array.from({ length: Math.max(...numbers) - first + 1 }, (_, i): Batch => {
      const batch = this.#batches.get(first + i);
      return { n: batch?.n ?? 0, below: batch?.countUpTo(value) ?? 0 };
    });
    const dispersion = dispersionOf(batches, n, share);
    const bursts = batches.filter((batch) => batch.below < batch.n).length;
    return dispersion > IN_BURSTS && bursts < BURSTS_MIN ? null : Math.floor(n / dispersion);
  }

  #batchAt(atUs: number): Histogram {
    const at = Math.floor(atUs / this.#batchUs);
    const known = this.#batches.get(at);
    if (known !== undefined) return known;
    const batch = new Histogram();
    this.#batches.set(at, batch);
    const isTooMany = (numbers: readonly number[]): boolean =>
      Math.max(...numbers) - Math.min(...numbers) >= BATCHES_MAX;
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

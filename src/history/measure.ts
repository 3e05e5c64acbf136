/**
 * Folds the lines of one stage into figures: its summary and its measurements by the names of
 * interface.md section 3. Memory is bounded by the number of outcomes and organizations, so a soak streams through.
 */
import { isWholeAnswer, STREAM_ENDS, type StreamEnd } from "../contract/streams.ts";
import { durationOf, FOLD_SPAN_US } from "./fold-line.ts";
import { type CallLine, classOf, type FoldedDuration, type FoldLine, type Line } from "./line.ts";
import type { Measurement, StageSummary } from "./run-document.ts";
import { BatchedHistogram } from "./statistics/batched-histogram.ts";
import type { Histogram } from "./statistics/histogram.ts";
import { jainIndex } from "./statistics/statistics.ts";

type StageMeasureOptions = {
  /** Calls per second that the schedule offered, on average; without it there is no `rate_error`. */
  offeredRatePerS?: number;
  /** How long the schedule sends, in milliseconds; without it the rate is read from the gaps between the calls. */
  scheduledMs?: number;
  /** How long the stage took; without it, from the first intended moment to the last end. */
  durationMs?: number;
};

type StageMeasured = { summary: StageSummary; measurements: Measurement[] };

const QUANTILES: Readonly<Record<string, number>> = { p50: 0.5, p90: 0.9, p99: 0.99, p999: 0.999 };

const isArrival = ({ unscheduled, attempt }: Pick<CallLine, "unscheduled" | "attempt">): boolean =>
  unscheduled === undefined && attempt === 0;

/** A fold: `see` every line of the run or of the stage in any order, then `end` once. */
export class StageMeasure {
  readonly #stage: string;
  readonly #drivers = new Set<string>();
  readonly #outcomes = new Map<string, number>();
  readonly #answeredByOrg = new Map<string, number>();
  readonly #calls = { sent: 0, answered: 0, refused: 0, indeterminate: 0 };
  readonly #latency = new BatchedHistogram();
  readonly #refusal = new BatchedHistogram();
  readonly #lag = new BatchedHistogram();
  readonly #firstEvent = new BatchedHistogram();
  readonly #gaps = new BatchedHistogram();
  readonly #fromSent = {
    latency: new BatchedHistogram(),
    refusal: new BatchedHistogram(),
    firstEvent: new BatchedHistogram(),
  };
  readonly #ends = new Map<StreamEnd, number>();
  /** First attempts of arrivals, their retries, and what was sent beside them. */
  readonly #made = { first: 0, retries: 0, mints: 0 };
  #firstIntendedUs = Number.POSITIVE_INFINITY;
  /** Of first attempts: a session is minted before the first of them, and a later step begins after the last. */
  #arrivals = { firstIntendedUs: Infinity, firstStartedUs: Infinity, lastStartedUs: -Infinity };
  #lastDoneUs = Number.NEGATIVE_INFINITY;

  /** Lines of other stages are passed over. */
  constructor(stage: string) {
    this.#stage = stage;
  }

  /** By how much calls left later than they should have. */
  get lag(): Histogram {
    return this.#lag.whole;
  }

  /** Arrivals of the schedule that became calls. */
  get arrivals(): number {
    return this.#made.first;
  }

  see(line: Line): void {
    if (line.stage !== this.#stage) return;
    if (line.type === "fold") this.#fold(line);
    if (line.type === "call") this.#call(line);
  }

  /** What is counted of every call, whole or folded. */
  #count({ driver, outcome, org }: Pick<CallLine, "driver" | "outcome" | "org">, n: number): void {
    const kind = classOf(outcome);
    this.#calls.sent += n;
    this.#calls[kind] += n;
    this.#drivers.add(driver);
    this.#outcomes.set(outcome, (this.#outcomes.get(outcome) ?? 0) + n);
    // An organization that got no answer counts as zero: leaving out the starved would make a stage look fair.
    if (org !== "-") {
      this.#answeredByOrg.set(org, (this.#answeredByOrg.get(org) ?? 0) + (kind === "answered" ? n : 0));
    }
  }

  #countMade({ unscheduled, attempt, ended }: Pick<CallLine, "unscheduled" | "attempt" | "ended">, n: number): void {
    if (unscheduled === "mint") this.#made.mints += n;
    else if (attempt > 0) this.#made.retries += n;
    else if (unscheduled === undefined) this.#made.first += n;
    if (ended !== undefined) this.#ends.set(ended, (this.#ends.get(ended) ?? 0) + n);
  }

  #arrived(intendedUs: number, firstStartedUs: number, lastStartedUs: number): void {
    const known = this.#arrivals;
    known.firstIntendedUs = Math.min(known.firstIntendedUs, intendedUs);
    known.firstStartedUs = Math.min(known.firstStartedUs, firstStartedUs);
    known.lastStartedUs = Math.max(known.lastStartedUs, lastStartedUs);
  }

  #fold(line: FoldLine): void {
    const merge = (into: BatchedHistogram, name: FoldedDuration): void => {
      const all = durationOf(line, name);
      if (all !== null) into.merge(all, line.at_us, FOLD_SPAN_US);
    };
    merge(this.#lag, "lag");
    merge(this.#latency, "latency");
    merge(this.#fromSent.latency, "latency_from_sent");
    merge(this.#firstEvent, "first_event");
    merge(this.#fromSent.firstEvent, "first_event_from_sent");
    merge(this.#gaps, "gaps");
    const { moments } = line;
    if (moments === null) return;
    this.#count(line, line.offered);
    for (const { call, n } of line.kinds) this.#countMade(call, n);
    this.#firstIntendedUs = Math.min(this.#firstIntendedUs, moments.first_intended_us);
    if (line.kinds.some(({ call }) => isArrival(call))) {
      this.#arrived(moments.first_intended_us, moments.first_started_us, moments.last_started_us);
    }
    this.#lastDoneUs = Math.max(this.#lastDoneUs, moments.last_done_us);
  }

  #call(line: CallLine): void {
    const kind = classOf(line.outcome);
    this.#count(line, 1);
    this.#firstIntendedUs = Math.min(this.#firstIntendedUs, line.intended_us);
    if (isArrival(line)) this.#arrived(line.intended_us, line.started_us, line.started_us);
    this.#lastDoneUs = Math.max(this.#lastDoneUs, line.done_us);
    // A connection that was slow to come is the target's time and the network's; only what lies before it is ours.
    this.#lag.record(line.started_us - line.intended_us, line.intended_us);
    this.#countMade(line, 1);
    if (kind === "answered") this.#answered(line);
    // `edge` answers were written by something before the API and say nothing about it.
    if (kind === "refused" && !line.outcome.startsWith("edge")) {
      this.#refusal.record(line.done_us - line.intended_us, line.intended_us);
      this.#fromSent.refusal.record(line.done_us - line.sent_us, line.intended_us);
    }
  }

  #answered(line: CallLine): void {
    const whole = isWholeAnswer(line);
    const { intended_us: atUs, sent_us: sentUs, done_us: doneUs, first_event_us: firstEventUs } = line;
    if (whole) {
      this.#latency.record(doneUs - atUs, atUs);
      this.#fromSent.latency.record(doneUs - sentUs, atUs);
    }
    if (firstEventUs !== undefined) {
      this.#firstEvent.record(firstEventUs - atUs, atUs);
      this.#fromSent.firstEvent.record(firstEventUs - sentUs, atUs);
    }
    // A reader that rests between two reads makes the gaps itself.
    if (line.slow_reader === undefined) for (const us of line.gaps_us ?? []) this.#gaps.record(us, atUs);
  }

  end(options: StageMeasureOptions = {}): StageMeasured {
    const measurements = [...this.#rates(options), ...this.#times(), ...this.#streams(), ...this.#fairness()];
    return { summary: this.#summary(options), measurements };
  }

  #summary({ durationMs }: StageMeasureOptions): StageSummary {
    const spanMs = this.#calls.sent === 0 ? 0 : (this.#lastDoneUs - this.#firstIntendedUs) / 1000;
    return {
      name: this.#stage,
      driver: [...this.#drivers].sort().join("+") || "-",
      duration_ms: durationMs ?? spanMs,
      calls: { ...this.#calls },
      by_outcome: Object.fromEntries([...this.#outcomes].sort(([a], [b]) => (a < b ? -1 : 1))),
    };
  }

  /**
   * First attempts per second: what the schedule asked for, without retries, later steps and minted sessions. A generator
   * that fell behind sends longer than scheduled: the longer of the two counts.
   */
  #achievedPerS({ scheduledMs }: StageMeasureOptions): number | null {
    const n = this.#made.first;
    const { firstIntendedUs, firstStartedUs, lastStartedUs } = this.#arrivals;
    if (scheduledMs !== undefined && scheduledMs > 0 && n > 0) {
      return n / (Math.max(scheduledMs, (lastStartedUs - firstIntendedUs) / 1000) / 1000);
    }
    const spanS = (lastStartedUs - firstStartedUs) / 1e6;
    return n > 1 && spanS > 0 ? (n - 1) / spanS : null;
  }

  #rates(options: StageMeasureOptions): Measurement[] {
    const achieved = this.#achievedPerS(options);
    if (achieved === null) return [];
    const offered = options.offeredRatePerS;
    const { first, retries, mints } = this.#made;
    const rates = [this.#plain("achieved_rate", achieved, "1/s", first)];
    if (offered !== undefined && offered > 0) {
      rates.push(this.#plain("offered_rate", offered, "1/s", first));
      rates.push(this.#plain("rate_error", achieved / offered - 1, "ratio", first));
    }
    return [
      ...rates,
      this.#plain("first_attempts", first, "1", this.#calls.sent),
      this.#plain("retries", retries, "1", this.#calls.sent),
      this.#plain("amplification", (first + retries) / first, "ratio", first),
      this.#plain("session_mints", mints, "1", this.#calls.sent),
    ];
  }

  #times(): Measurement[] {
    const { max, n } = this.#latency.whole;
    return [
      ...this.#quantiles("latency_ms", this.#latency, ["p50", "p90", "p99", "p999"]),
      ...(max === null ? [] : [this.#plain("latency_ms_max", max / 1000, "ms", n)]),
      ...this.#quantiles("refusal_ms", this.#refusal, ["p50", "p99"]),
      ...this.#quantiles("schedule_lag_ms", this.#lag, ["p50", "p99"]),
      ...this.#quantiles("ttfe_ms", this.#firstEvent, ["p50", "p99"]),
      ...this.#quantiles("event_gap_ms", this.#gaps, ["p50", "p99"]),
      ...this.#quantiles("latency_from_sent_ms", this.#fromSent.latency, ["p50", "p99"]),
      ...this.#quantiles("refusal_from_sent_ms", this.#fromSent.refusal, ["p50", "p99"]),
      ...this.#quantiles("ttfe_from_sent_ms", this.#fromSent.firstEvent, ["p50", "p99"]),
    ];
  }

  /** How streams ended, each end that was seen; those that were refused are ends as well. */
  #streams(): Measurement[] {
    const all = [...this.#ends.values()].reduce((sum, n) => sum + n, 0);
    return STREAM_ENDS.flatMap((end) => {
      const n = this.#ends.get(end) ?? 0;
      return n === 0 ? [] : [this.#plain(`streams_${end}`, n, "1", all)];
    });
  }

  #fairness(): Measurement[] {
    const shares = [...this.#answeredByOrg.values()];
    const index = shares.length < 2 ? null : jainIndex(shares);
    return index === null ? [] : [this.#plain("jain_index", index, "ratio", shares.length)];
  }

  #quantiles(name: string, times: BatchedHistogram, which: readonly string[]): Measurement[] {
    return which.flatMap((suffix) => {
      const p = QUANTILES[suffix]!;
      const value = times.whole.quantile(p);
      if (value === null) return [];
      const measurement = this.#plain(`${name}_${suffix}`, value / 1000, "ms", times.whole.n);
      const interval = times.interval(p);
      return [
        interval === null ? measurement : { ...measurement, low: interval.low / 1000, high: interval.high / 1000 },
      ];
    });
  }

  #plain(name: string, value: number, unit: string, n: number): Measurement {
    return { name, stage: this.#stage, value, unit, low: null, high: null, n };
  }
}

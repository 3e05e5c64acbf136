/**
 * Folds the lines of one stage into what is told about it in numbers: its summary and its measurements by the names of
 * interface.md section 3. Memory is bounded by the number of outcomes and organizations, so a soak streams through.
 */
import { STREAM_ENDS, type StreamEnd } from "../contract/streams.ts";
import { Histogram } from "./histogram.ts";
import { type CallLine, classOf, type Line } from "./line.ts";
import type { Measurement, StageSummary } from "./run-document.ts";
import { jainIndex, quantileRanks } from "./statistics.ts";

export type StageMeasureOptions = {
  /** Lines of other stages are passed over. */
  stage: string;
  /** Calls per second that the schedule offered, on average; without it there is no `rate_error`. */
  offeredRatePerS?: number;
  /** How long the schedule sends, in milliseconds; without it the rate is read from the gaps between the calls. */
  scheduledMs?: number;
  /** How long the stage took; without it, from the first intended moment to the last end. */
  durationMs?: number;
};

export type StageMeasured = { summary: StageSummary; measurements: Measurement[] };

/** Streams whose answer came to an end of its own; the others were cut, and when they would have ended is unknown. */
const WHOLE = new Set<CallLine["ended"]>([undefined, "done", "error_event"]);

const QUANTILES: Readonly<Record<string, number>> = { p50: 0.5, p90: 0.9, p99: 0.99, p999: 0.999 };

/** A fold: `see` every line of the run or of the stage in any order, then `end` once. */
export class StageMeasure {
  readonly #options: StageMeasureOptions;
  readonly #drivers = new Set<string>();
  readonly #outcomes = new Map<string, number>();
  readonly #answeredByOrg = new Map<string, number>();
  readonly #calls = { sent: 0, answered: 0, refused: 0, indeterminate: 0 };
  readonly #latency = new Histogram();
  readonly #refusal = new Histogram();
  readonly #lag = new Histogram();
  readonly #firstEvent = new Histogram();
  readonly #gaps = new Histogram();
  readonly #fromSent = { latency: new Histogram(), refusal: new Histogram(), firstEvent: new Histogram() };
  readonly #ends = new Map<StreamEnd, number>();
  /** First attempts of arrivals, their retries, and what was sent beside them. */
  readonly #made = { first: 0, retries: 0, mints: 0 };
  #firstIntendedUs = Number.POSITIVE_INFINITY;
  #firstStartedUs = Number.POSITIVE_INFINITY;
  #lastStartedUs = Number.NEGATIVE_INFINITY;
  #lastDoneUs = Number.NEGATIVE_INFINITY;

  constructor(options: StageMeasureOptions) {
    this.#options = options;
  }

  see(line: Line): void {
    if (line.type !== "call" || line.stage !== this.#options.stage) return;
    const kind = classOf(line.outcome);
    this.#calls.sent += 1;
    this.#calls[kind] += 1;
    this.#drivers.add(line.driver);
    this.#outcomes.set(line.outcome, (this.#outcomes.get(line.outcome) ?? 0) + 1);
    // An organization that got no answer counts as zero: leaving out the starved would make a stage look fair.
    if (line.org !== "-") {
      this.#answeredByOrg.set(line.org, (this.#answeredByOrg.get(line.org) ?? 0) + (kind === "answered" ? 1 : 0));
    }
    this.#firstIntendedUs = Math.min(this.#firstIntendedUs, line.intended_us);
    this.#firstStartedUs = Math.min(this.#firstStartedUs, line.started_us);
    this.#lastStartedUs = Math.max(this.#lastStartedUs, line.started_us);
    this.#lastDoneUs = Math.max(this.#lastDoneUs, line.done_us);
    // A connection that was slow to come is the target's time and the network's; only what lies before it is ours.
    this.#lag.record(line.started_us - line.intended_us);
    if (line.unscheduled === "mint") this.#made.mints += 1;
    else if (line.attempt > 0) this.#made.retries += 1;
    else if (line.unscheduled === undefined) this.#made.first += 1;
    if (line.ended !== undefined) this.#ends.set(line.ended, (this.#ends.get(line.ended) ?? 0) + 1);
    if (kind === "answered") this.#answered(line);
    // `edge` answers were written by something before the API and say nothing about it.
    if (kind === "refused" && !line.outcome.startsWith("edge")) {
      this.#refusal.record(line.done_us - line.intended_us);
      this.#fromSent.refusal.record(line.done_us - line.sent_us);
    }
  }

  #answered(line: CallLine): void {
    const whole = WHOLE.has(line.ended) && line.aborted === undefined;
    if (whole) {
      this.#latency.record(line.done_us - line.intended_us);
      this.#fromSent.latency.record(line.done_us - line.sent_us);
    }
    if (line.first_event_us !== undefined) {
      this.#firstEvent.record(line.first_event_us - line.intended_us);
      this.#fromSent.firstEvent.record(line.first_event_us - line.sent_us);
    }
    // A reader that rests between two reads makes the gaps itself.
    if (line.slow_reader === undefined) for (const us of line.gaps_us ?? []) this.#gaps.record(us);
  }

  end(): StageMeasured {
    return {
      summary: this.#summary(),
      measurements: [...this.#rates(), ...this.#times(), ...this.#streams(), ...this.#fairness()],
    };
  }

  #summary(): StageSummary {
    const { stage, durationMs } = this.#options;
    const spanMs = this.#calls.sent === 0 ? 0 : (this.#lastDoneUs - this.#firstIntendedUs) / 1000;
    return {
      name: stage,
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
  #achievedPerS(): number | null {
    const { scheduledMs } = this.#options;
    const n = this.#made.first;
    if (scheduledMs !== undefined && scheduledMs > 0 && n > 0) {
      return n / (Math.max(scheduledMs, (this.#lastStartedUs - this.#firstIntendedUs) / 1000) / 1000);
    }
    const spanS = (this.#lastStartedUs - this.#firstStartedUs) / 1e6;
    return n > 1 && spanS > 0 ? (n - 1) / spanS : null;
  }

  #rates(): Measurement[] {
    const achieved = this.#achievedPerS();
    if (achieved === null) return [];
    const offered = this.#options.offeredRatePerS;
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
    const max = this.#latency.max;
    return [
      ...this.#quantiles("latency_ms", this.#latency, ["p50", "p90", "p99", "p999"]),
      ...(max === null ? [] : [this.#plain("latency_ms_max", max / 1000, "ms", this.#latency.n)]),
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

  #quantiles(name: string, histogram: Histogram, which: readonly string[]): Measurement[] {
    return which.flatMap((suffix) => {
      const p = QUANTILES[suffix]!;
      const value = histogram.quantile(p);
      if (value === null) return [];
      const measurement = this.#plain(`${name}_${suffix}`, value / 1000, "ms", histogram.n);
      const ranks = quantileRanks(histogram.n, p);
      if (ranks === null) return [measurement];
      // The outer edges of the buckets, so that rounding only widens the interval.
      const low = histogram.atRank(ranks.low)!.low / 1000;
      const high = histogram.atRank(ranks.high)!.high / 1000;
      return [{ ...measurement, low, high }];
    });
  }

  #plain(name: string, value: number, unit: string, n: number): Measurement {
    return { name, stage: this.#options.stage, value, unit, low: null, high: null, n };
  }
}

/** `StageMeasure` over lines that are at hand. */
export const measureStage = (lines: Iterable<Line>, options: StageMeasureOptions): StageMeasured => {
  const measure = new StageMeasure(options);
  for (const line of lines) measure.see(line);
  return measure.end();
};

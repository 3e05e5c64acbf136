/**
 * A run as OpenTelemetry metrics while it goes on, in the JSON form of OTLP: the same names whichever driver makes the
 * calls, since both write the same lines. Cumulative since the run began, so that an export that got lost loses nothing.
 * Units are in the names alone: a store that follows the rules of Prometheus would put a unit behind them once more.
 * Form: opentelemetry-proto, `metrics/v1/metrics.proto`; whole 64-bit numbers are strings there.
 */
import { isWholeAnswer } from "../contract/streams.ts";
import { durationOf } from "../history/fold-line.ts";
import { type CallLine, classOf, type FoldedDuration, type FoldLine, type Line } from "../history/line.ts";
import type { Sample } from "../history/sample.ts";

type Attributes = Record<string, string>;
type KeyValue = { key: string; value: { stringValue: string } };

/** Milliseconds. */
const BOUNDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000];
/** Outcomes and stages beyond this many are counted together: a hostile answer must not fill a store of metrics. */
const SERIES_MOST = 1_000;
const OVERFLOW: Attributes = { "otel.metric.overflow": "true" };

const keyValues = (attributes: Attributes): KeyValue[] =>
  Object.entries(attributes).map(([key, stringValue]) => ({ key, value: { stringValue } }));

class Family<T> {
  readonly #points = new Map<string, { attributes: Attributes; value: T }>();
  readonly #start: () => T;

  constructor(start: () => T) {
    this.#start = start;
  }

  at(attributes: Attributes): { value: T } {
    const known = this.#points.get(JSON.stringify(attributes));
    if (known !== undefined) return known;
    const isFull = this.#points.size >= SERIES_MOST && attributes !== OVERFLOW;
    if (isFull) return this.at(OVERFLOW);
    const point = { attributes, value: this.#start() };
    this.#points.set(JSON.stringify(attributes), point);
    return point;
  }

  *[Symbol.iterator](): IterableIterator<{ attributes: Attributes; value: T }> {
    yield* this.#points.values();
  }
}

type Buckets = { counts: number[]; count: number; sum: number };

const DURATIONS = {
  latency_ms: "Whole answers, from the moment at which a call was due.",
  refusal_ms: "Refusals, from the moment at which a call was due.",
  ttfe_ms: "First events of streams, from the moment at which a call was due.",
  event_gap_ms: "Between two events of a stream.",
  schedule_lag_ms: "How late the generator itself was.",
} as const;
type DurationName = keyof typeof DURATIONS;

/** Admitted calls are folded, so there are no refusals among them. */
const FOLDED: readonly [DurationName, FoldedDuration][] = [
  ["schedule_lag_ms", "lag"],
  ["latency_ms", "latency"],
  ["ttfe_ms", "first_event"],
  ["event_gap_ms", "gaps"],
];

export class OtlpMetrics {
  readonly #resource: KeyValue[];
  readonly #startNs: string;
  readonly #calls = new Family<number>(() => 0);
  readonly #durations: Record<DurationName, Family<Buckets>>;
  readonly #gauges = new Map<string, Family<number>>();

  /** `startMs`: when the run began, in milliseconds since 1970. */
  constructor(resource: Attributes, startMs: number) {
    this.#resource = keyValues(resource);
    this.#startNs = nanoseconds(startMs);
    const empty = (): Buckets => ({ counts: BOUNDS.map(() => 0).concat(0), count: 0, sum: 0 });
    this.#durations = Object.fromEntries(
      Object.keys(DURATIONS).map((name) => [name, new Family(empty)]),
    ) as unknown as Record<DurationName, Family<Buckets>>;
  }

  see(line: Line | Sample): void {
    if (line.type === "call") this.#call(line);
    else if (line.type === "fold") this.#fold(line);
    else if (line.type === "sample") {
      for (const [name, value] of Object.entries(line.values)) {
        const family = this.#gauges.get(name) ?? new Family<number>(() => 0);
        this.#gauges.set(name, family);
        family.at({ stage: line.stage }).value = value;
      }
    }
  }

  #call(line: CallLine): void {
    const { stage, driver, outcome } = line;
    this.#calls.at({ stage, driver, outcome }).value += 1;
    const of = { stage, driver };
    this.#record("schedule_lag_ms", of, line.started_us - line.intended_us);
    const kind = classOf(outcome);
    const tookUs = line.done_us - line.intended_us;
    if (kind === "refused" && !outcome.startsWith("edge")) this.#record("refusal_ms", of, tookUs);
    if (kind !== "answered") return;
    if (isWholeAnswer(line)) this.#record("latency_ms", of, tookUs);
    if (line.first_event_us !== undefined) this.#record("ttfe_ms", of, line.first_event_us - line.intended_us);
    // A reader that rests between two reads makes the gaps itself.
    if (line.slow_reader === undefined) for (const gapUs of line.gaps_us ?? []) this.#record("event_gap_ms", of, gapUs);
  }

  #fold(line: FoldLine): void {
    const { stage, driver, outcome } = line;
    if (line.offered > 0) this.#calls.at({ stage, driver, outcome }).value += line.offered;
    for (const [name, folded] of FOLDED) {
      const all = durationOf(line, folded);
      for (const { us, count } of all?.values() ?? []) this.#record(name, { stage, driver }, us, count);
    }
  }

  #record(name: DurationName, attributes: Attributes, us: number, count = 1): void {
    const ms = Math.max(0, us) / 1000;
    const { value } = this.#durations[name].at(attributes);
    const at = BOUNDS.findIndex((bound) => ms <= bound);
    const bucket = at < 0 ? BOUNDS.length : at;
    value.counts[bucket] = (value.counts[bucket] ?? 0) + count;
    value.count += count;
    value.sum += ms * count;
  }

  /** The body of `POST /v1/metrics`. `nowMs`: milliseconds since 1970. */
  toOtlp(nowMs: number): unknown {
    const times = { startTimeUnixNano: this.#startNs, timeUnixNano: nanoseconds(nowMs) };
    const calls = [...this.#calls].map(({ attributes, value }) => ({
      attributes: keyValues(attributes),
      ...times,
      asInt: String(value),
    }));
    const durations = Object.entries(this.#durations).map(([name, family]) => ({
      name: `floodgate_${name}`,
      description: DURATIONS[name as DurationName],
      histogram: {
        aggregationTemporality: 2,
        dataPoints: [...family].map(({ attributes, value }) => ({
          attributes: keyValues(attributes),
          ...times,
          count: String(value.count),
          sum: value.sum,
          bucketCounts: value.counts.map(String),
          explicitBounds: BOUNDS,
        })),
      },
    }));
    const gauges = [...this.#gauges].map(([name, family]) => ({
      name: `floodgate_${name}`,
      gauge: {
        dataPoints: [...family].map(({ attributes, value }) => ({
          attributes: keyValues(attributes),
          timeUnixNano: times.timeUnixNano,
          asDouble: value,
        })),
      },
    }));
    const metrics = [
      {
        name: "floodgate_calls",
        description: "Calls by stage, driver and outcome; every call counts once.",
        sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints: calls },
      },
      ...durations.filter(({ histogram }) => histogram.dataPoints.length > 0),
      ...gauges,
    ].filter((metric) => !("sum" in metric) || calls.length > 0);
    const scope = { scope: { name: "floodgate" }, metrics };
    return { resourceMetrics: [{ resource: { attributes: this.#resource }, scopeMetrics: [scope] }] };
  }
}

/** Milliseconds would lose digits as a double of nanoseconds. */
const nanoseconds = (ms: number): string => `${Math.round(ms)}000000`;

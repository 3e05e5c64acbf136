/**
 * A run as OpenTelemetry metrics while it goes on, in the JSON form of OTLP: the same names whichever driver makes the
 * calls, since all write the same lines. Cumulative since the run began, so that an export that got lost loses nothing.
 * Units are in the names alone: a store that follows the rules of Prometheus would put a unit behind them once more.
 * Form: opentelemetry-proto, `metrics/v1/metrics.proto`; whole 64-bit numbers are strings there.
 */
import type { Line } from "../history/line.ts";
import type { Sample } from "../history/sample.ts";
import { type DurationName, eachDuration } from "../history/tally.ts";

type Attributes = Record<string, string>;

/** Milliseconds. */
const BOUNDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000];
/** Outcomes and stages beyond this many are counted together: a hostile answer must not fill a store of metrics. */
const SERIES_MOST = 1_000;
const OVERFLOW: Attributes = { "otel.metric.overflow": "true" };

const keyValues = (attributes: Attributes) =>
  Object.entries(attributes).map(([key, stringValue]) => ({ key, value: { stringValue } }));

class Family<T> {
  readonly #points = new Map<string, { attributes: Attributes; value: T }>();
  readonly #start: () => T;

  constructor(start: () => T) {
    this.#start = start;
  }

  at(attributes: Attributes): { value: T } {
    const key = JSON.stringify(attributes);
    const known = this.#points.get(key);
    if (known !== undefined) return known;
    if (this.#points.size >= SERIES_MOST && attributes !== OVERFLOW) return this.at(OVERFLOW);
    const point = { attributes, value: this.#start() };
    this.#points.set(key, point);
    return point;
  }

  points(of: (value: T) => object): object[] {
    return [...this.#points.values()].map(({ attributes, value }) => ({
      attributes: keyValues(attributes),
      ...of(value),
    }));
  }
}

type Buckets = { counts: number[]; count: number; sum: number };

const DURATIONS: Partial<Record<DurationName, readonly [name: string, description: string]>> = {
  latency: ["latency_ms", "Whole answers, from the moment at which a call was due."],
  refusal: ["refusal_ms", "Refusals, from the moment at which a call was due."],
  first_event: ["ttfe_ms", "First events of streams, from the moment at which a call was due."],
  gaps: ["event_gap_ms", "Between two events of a stream."],
  lag: ["schedule_lag_ms", "How late the generator itself was."],
};

export class OtlpMetrics {
  readonly #resource: Attributes;
  readonly #startMs: number;
  readonly #calls = new Family<number>(() => 0);
  readonly #durations = new Map(
    Object.entries(DURATIONS).map(([of, [name, description]]) => {
      const family = new Family((): Buckets => ({ counts: BOUNDS.map(() => 0).concat(0), count: 0, sum: 0 }));
      return [of, { name, description, family }];
    }),
  );
  readonly #gauges = new Map<string, Family<number>>();

  constructor(resource: Attributes, startMs: number) {
    this.#resource = resource;
    this.#startMs = startMs;
  }

  see(line: Line | Sample): void {
    const { stage } = line;
    if (line.type === "sample") {
      for (const [name, value] of Object.entries(line.values)) {
        const family = this.#gauges.get(name) ?? new Family<number>(() => 0);
        this.#gauges.set(name, family);
        family.at({ stage }).value = value;
      }
    }
    if (line.type !== "call" && line.type !== "fold") return;
    const { driver, outcome } = line;
    const n = line.type === "call" ? 1 : line.offered;
    if (n > 0) this.#calls.at({ stage, driver, outcome }).value += n;
    eachDuration(line, (name, us, _atUs, count) => {
      const value = this.#durations.get(name)?.family.at({ stage, driver }).value;
      if (value === undefined) return;
      const ms = Math.max(0, us) / 1000;
      const at = BOUNDS.findIndex((bound) => ms <= bound);
      value.counts[at < 0 ? BOUNDS.length : at]! += count;
      value.count += count;
      value.sum += ms * count;
    });
  }

  toOtlp(nowMs: number): unknown {
    const now = { timeUnixNano: nanoseconds(nowMs) };
    const times = { startTimeUnixNano: nanoseconds(this.#startMs), ...now };
    const calls = this.#calls.points((n) => ({ ...times, asInt: String(n) }));
    const durations = [...this.#durations.values()].map(({ name, description, family }) => ({
      name: `floodgate_${name}`,
      description,
      histogram: {
        aggregationTemporality: 2,
        dataPoints: family.points(({ counts, count, sum }) => ({
          ...times,
          count: String(count),
          sum,
          bucketCounts: counts.map(String),
          explicitBounds: BOUNDS,
        })),
      },
    }));
    const gauges = [...this.#gauges].map(([name, family]) => ({
      name: `floodgate_${name}`,
      gauge: { dataPoints: family.points((value) => ({ ...now, asDouble: value })) },
    }));
    const counted = {
      name: "floodgate_calls",
      description: "Calls by stage, driver and outcome; every call counts once.",
      sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints: calls },
    };
    const metrics = [
      ...(calls.length === 0 ? [] : [counted]),
      ...durations.filter(({ histogram }) => histogram.dataPoints.length > 0),
      ...gauges,
    ];
    const scopeMetrics = [{ scope: { name: "floodgate" }, metrics }];
    return { resourceMetrics: [{ resource: { attributes: keyValues(this.#resource) }, scopeMetrics }] };
  }
}

/** Milliseconds would lose digits as a double of nanoseconds. */
const nanoseconds = (ms: number): string => `${Math.round(ms)}000000`;

/**
 * A run as OpenTelemetry metrics while it goes on, in the JSON form of OTLP: the same names for every driver, since all
 * write the same lines. Values are cumulative since the run began, so a lost export loses nothing. Units stand only in
 * names: a store that follows the rules of Prometheus would append a unit once more. Form: opentelemetry-proto,
 * `metrics/v1/metrics.proto`; whole 64-bit numbers are strings there.
 */
import type { Line } from "../history/line.ts";
import type { Sample } from "../history/series.ts";
import { known } from "../history/statistics/statistics.ts";
import { DURATIONS, eachDuration } from "../history/tally.ts";

type Attributes = Record<string, string>;

/** Upper bounds of the buckets, in milliseconds. */
const BOUNDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000];
/** Series beyond this number are counted together: a hostile answer must not fill a store of metrics. */
const SERIES_MOST = 1_000;
const OVERFLOW: Attributes = { "otel.metric.overflow": "true" };

const keyValues = (attributes: Attributes) =>
  Object.entries(attributes).map(([key, stringValue]) => ({ key, value: { stringValue } }));

/** The value of a metric for one set of attributes: a number; of a histogram also its sum and buckets. */
type Point = { attributes: Attributes; n: number; sum: number; buckets: number[] };
type Points = Map<string, Point>;

const at = (points: Points, attributes: Attributes): Point => {
  const key = JSON.stringify(attributes);
  const isFull = points.size >= SERIES_MOST && !points.has(key) && attributes !== OVERFLOW;
  if (isFull) return at(points, OVERFLOW);
  return known(points, key, () => ({ attributes, n: 0, sum: 0, buckets: [...BOUNDS, 0].map(() => 0) }));
};

/** Written as text, because nanoseconds since 1970 exceed the whole numbers of a double. */
const nanoseconds = (ms: number): string => `${Math.round(ms)}000000`;

export const otlpMetrics = (resource: Attributes, startMs: number) => {
  const calls: Points = new Map();
  const durations = Object.entries(DURATIONS).flatMap(([of, [name, , description]]) =>
    description === null ? [] : [{ of, name, description, points: new Map() as Points }],
  );
  const gauges = new Map<string, Points>();
  return {
    see: (line: Line | Sample): void => {
      const { stage } = line;
      if (line.type === "sample") {
        for (const [name, value] of Object.entries(line.values)) {
          const points = known(gauges, name, () => new Map());
          at(points, { stage }).n = value;
        }
      }
      if (line.type !== "call" && line.type !== "fold") return;
      const { driver, outcome } = line;
      const n = line.type === "call" ? 1 : line.offered;
      if (n > 0) at(calls, { stage, driver, outcome }).n += n;
      eachDuration(line, (name, us, _atUs, count) => {
        const points = durations.find(({ of }) => of === name)?.points;
        if (points === undefined) return;
        const point = at(points, { stage, driver });
        const ms = Math.max(0, us) / 1000;
        const bucket = BOUNDS.findIndex((bound) => ms <= bound);
        point.buckets[bucket < 0 ? BOUNDS.length : bucket]! += count;
        point.n += count;
        point.sum += ms * count;
      });
    },
    toOtlp: (nowMs: number): unknown => {
      const now = { timeUnixNano: nanoseconds(nowMs) };
      const times = { startTimeUnixNano: nanoseconds(startMs), ...now };
      const dataPoints = (points: Points, of: (point: Point) => object): object[] =>
        [...points.values()].map((point) => ({ attributes: keyValues(point.attributes), ...of(point) }));
      const made = dataPoints(calls, ({ n }) => ({ ...times, asInt: String(n) }));
      const counted = {
        name: "floodgate_calls",
        description: "Calls by stage, driver and outcome; every call counts once.",
        sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints: made },
      };
      const histogram = ({ n, sum, buckets }: Point) => ({
        ...{ ...times, count: String(n), sum, bucketCounts: buckets.map(String), explicitBounds: BOUNDS },
      });
      const timed = durations
        .filter(({ points }) => points.size > 0)
        .map(({ name, description, points }) => ({
          ...{ name: `floodgate_${name}`, description },
          histogram: { aggregationTemporality: 2, dataPoints: dataPoints(points, histogram) },
        }));
      const read = [...gauges].map(([name, points]) => ({
        name: `floodgate_${name}`,
        gauge: { dataPoints: dataPoints(points, ({ n }) => ({ ...now, asDouble: n })) },
      }));
      const metrics = [...(made.length === 0 ? [] : [counted]), ...timed, ...read];
      const scopeMetrics = [{ scope: { name: "floodgate" }, metrics }];
      return { resourceMetrics: [{ resource: { attributes: keyValues(resource) }, scopeMetrics }] };
    },
  };
};

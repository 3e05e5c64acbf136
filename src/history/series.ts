/** `series.json`: counts and histograms for each bin of time. A call counts when it was *due*, so a stall shows. */
import { add } from "./statistics/counts.ts";
import { sumOf } from "./statistics/statistics.ts";

// Durations are counted in logarithmic buckets, so that a value read back is within 2.2 % of the one recorded: coarser than
// `Histogram`, and small enough for each bin. Merging two loses nothing.

/** For each power of two of microseconds. */
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

/** Sums over all API replicas; the lag is the worst replica's. */
type Gauged = "in_flight" | "sockets" | "rss_bytes" | "event_loop_lag_ms_p99";
/** Since the sample before: cores that the generator used; shares of the machine's CPU time taken by the hypervisor, and not idle. */
export type SampleName = Gauged | "generator_cores" | "host_steal" | "host_busy";

/** What deployment and machine showed at one moment of a stage: a line of `samples.ndjson`, for charts only. */
export type Sample = { type: "sample"; stage: string; at_us: number; values: Partial<Record<SampleName, number>> };

/** `name`: of a mark, or the phase of a fault. */
export type SeriesEvent = {
  at_ms: number;
  name: string;
  fault?: { experiment: string; link: string; fault: string; took_effect?: boolean };
};

/** Calls by the moment at which they were due (all of the stage), were handed to the transport, and ended. */
export const COUNTED = ["offered", "started", "ended"] as const;
type Counts = Record<(typeof COUNTED)[number], number[]>;
/** Rows of `DURATIONS` (tally.ts); a gap counts at the moment of its second event. */
export const TIMED = ["latency", "refusals", "first_event", "gaps", "lag"] as const;
type Durations = Record<(typeof TIMED)[number], SparseBuckets[]>;
/** The largest in each bin. */
type Samples = Partial<Record<SampleName, Gauge[]>>;
type Gauge = number | null;

export type StageSeries = Counts &
  Durations & {
    stage: string;
    /** When the first bin begins, in milliseconds on the run's clock. */
    from_ms: number;
    /** A second, or less in a short stage and more in a long one. Every list below has one value for each bin. */
    bin_ms: number;
    /** By intended moment, as in `by_outcome` of the stage; from the 65th organization on they are `(others)`. */
    by_outcome: Record<string, number[]>;
    by_organization: Record<string, Record<"offered" | "answered" | "shed", number[]>>;
    /** Whole answers of all bins, from the moment of sending: what a generator that waits for answers would report. */
    latency_from_sent: SparseBuckets;
    gauges: Samples;
    generator: Samples;
    events: SeriesEvent[];
    /** The number of events beyond the first 500, which are not listed. */
    events_left_out: number;
    /** Calls that all replicas hold before they shed, where the target file states it. */
    in_flight_cap: number | null;
  };

export type Series = { schema: "floodgate/series@1"; stages: StageSeries[] };

export const largestOf = (bins: readonly Gauge[]): Gauge =>
  bins.reduce<Gauge>((most, n) => (n === null ? most : Math.max(n, most ?? n)), null);

/** The last value joins what is left. */
export const inRows = <T>(bins: readonly T[], size: number, joined: (some: readonly T[]) => T): T[] =>
  Array.from({ length: Math.ceil(bins.length / size) }, (_, i) => joined(bins.slice(i * size, (i + 1) * size)));

export const listsOf = <K extends string, T>(names: readonly K[], of: (name: K) => T): Record<K, T> =>
  Object.fromEntries(names.map((name) => [name, of(name)])) as Record<K, T>;

const each = <T>(record: Partial<Record<string, T>>, change: (value: T) => T): Record<string, T> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value as T)]));

/** `joined` makes one of several values of a list. */
const changed = (
  series: StageSeries,
  change: <T>(bins: readonly T[], joined: (some: readonly T[]) => T) => T[],
): StageSeries => {
  const counts = (bins: number[]): number[] => change(bins, sumOf);
  const buckets = (bins: SparseBuckets[]): SparseBuckets[] => change(bins, mergeSparse);
  const gauges = (bins: Gauge[]): Gauge[] => change(bins, largestOf);
  return {
    ...series,
    ...listsOf(COUNTED, (name) => counts(series[name])),
    ...listsOf(TIMED, (name) => buckets(series[name])),
    by_outcome: each(series.by_outcome, counts),
    by_organization: each(series.by_organization, (of) => each(of, counts) as typeof of),
    gauges: each(series.gauges, gauges),
    generator: each(series.generator, gauges),
  };
};

/** Joins bins until there are at most `binsMost`. */
export const coarserSeries = (series: StageSeries, binsMost: number): StageSeries => {
  const size = Math.ceil(series.offered.length / binsMost);
  if (size <= 1) return series;
  return { ...changed(series, (bins, joined) => inRows(bins, size, joined)), bin_ms: series.bin_ms * size };
};

/** Drops the bins before the first call was due and after the last call ended. */
export const busyPartOf = (series: StageSeries): StageSeries => {
  const first = series.offered.findIndex((n) => n > 0);
  if (first < 0) return series;
  const last = Math.max(...[series.offered, series.ended].map((bins) => bins.findLastIndex((n) => n > 0)));
  const from_ms = series.from_ms + first * series.bin_ms;
  return { ...changed(series, (bins) => bins.slice(first, last + 1)), from_ms };
};

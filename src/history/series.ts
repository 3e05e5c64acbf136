/** `series.json`: counts and histograms for each bin of time. A call counts when it was *due*, so a stall shows. */

import { SHED_OUTCOMES } from "../contract/refusals.ts";
import { type CallLine, classOf, type FoldLine, type Line } from "./line.ts";
import type { Limits } from "./run-document.ts";
import { add, known, sumOf } from "./statistics/statistics.ts";
import { type DurationName, eachDuration } from "./tally.ts";

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

export const countOf = (sparse: readonly number[]) => sparse.reduce((n, value, i) => (i % 2 === 0 ? n : n + value), 0);

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
/** Rows of `DURATIONS` (tally.ts); a gap counts at the moment of its second event. */
export const TIMED = ["latency", "refusals", "first_event", "gaps", "lag"] as const;
/** The largest in each bin. */
type Samples = Partial<Record<SampleName, Gauge[]>>;
type Gauge = number | null;

export type StageSeries = Record<(typeof COUNTED)[number], number[]> &
  Record<(typeof TIMED)[number], SparseBuckets[]> & {
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
const changed = (series: StageSeries, change: <T>(bins: readonly T[], joined: (some: readonly T[]) => T) => T[]) => {
  const counts = (bins: number[]): number[] => change(bins, sumOf);
  const gauges = (bins: Gauge[]): Gauge[] => change(bins, largestOf);
  return {
    ...series,
    ...listsOf(COUNTED, (name) => counts(series[name])),
    ...listsOf(TIMED, (name) => change(series[name], mergeSparse)),
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

// Folds the lines of a run into its series, in any order. Memory is bounded: bins begin with an eighth of a second
// and double whenever there are too many; bins of a second suffice for 20 minutes.

const FINEST_US = 125_000;
/** The most bins of a stage while they are shorter than a second, and from a second on. */
const FINE_MOST = 300;
const BINS_MOST = 1_200;
const SECOND_LEVEL = 3;
const ORGANIZATIONS_MOST = 64;
const OTHERS = "(others)";
const EVENTS_MOST = 500;

const IN_BINS: ReadonlySet<DurationName> = new Set(TIMED);

const BY_ORGANIZATION = ["offered", "answered", "shed"] as const;
type Section = "calls" | "outcome" | (typeof BY_ORGANIZATION)[number] | "gauges" | "generator" | DurationName;
type Bin = Map<Section, Map<string | number, number>>;

/** Of samples the largest is kept. */
const put = (bin: Bin, section: Section, key: string | number, n: number): void => {
  const values = known(bin, section, () => new Map());
  if (section === "gauges" || section === "generator") values.set(key, Math.max(n, values.get(key) ?? n));
  else add(values, key, n);
};

const eventOf = (line: Exclude<Line, CallLine | FoldLine>): SeriesEvent => {
  const at_ms = line.at_us / 1000;
  if (line.type === "mark") return { at_ms, name: line.name };
  const { phase, experiment, link, fault, took_effect } = line;
  return { at_ms, name: phase, fault: { experiment, link, fault, took_effect } };
};

const stageFold = (stage: string) => {
  let bins = new Map<number, Bin>();
  /** Bins last 2^level times the finest. */
  let level = 0;
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  let eventsLeftOut = 0;
  let inFlightCap: number | null = null;
  const organizations = new Set<string>();
  const fromSent = new Map<number, number>();
  const events: SeriesEvent[] = [];
  const widthUs = (): number => FINEST_US * 2 ** level;

  const coarsen = (): void => {
    const fine = bins;
    bins = new Map();
    level += 1;
    first = Math.floor(first / 2);
    last = Math.floor(last / 2);
    for (const [index, sections] of fine) {
      const bin = known(bins, Math.floor(index / 2), () => new Map());
      for (const [section, values] of sections) for (const [key, n] of values) put(bin, section, key, n);
    }
  };

  const at = (us: number): Bin => {
    let index = Math.floor(us / widthUs());
    first = Math.min(first, index);
    last = Math.max(last, index);
    while (last - first + 1 > (level < SECOND_LEVEL ? FINE_MOST : BINS_MOST)) {
      coarsen();
      index = Math.floor(us / widthUs());
    }
    return known(bins, index, () => new Map());
  };

  const rowOf = (org: string): string => {
    if (!organizations.has(org) && organizations.size >= ORGANIZATIONS_MOST) return OTHERS;
    organizations.add(org);
    return org;
  };

  const count = (line: CallLine | FoldLine): void => {
    const isCall = line.type === "call";
    // Folded calls are counted by the second, so no bin is shorter from then on.
    while (!isCall && level < SECOND_LEVEL) coarsen();
    const dueUs = isCall ? line.intended_us : line.at_us;
    const [offered, started, ended] = isCall ? [1, 1, 1] : [line.offered, line.started, line.ended];
    put(at(isCall ? line.started_us : dueUs), "calls", "started", started);
    put(at(isCall ? line.done_us : dueUs), "calls", "ended", ended);
    if (offered > 0) {
      const [bin, org, { outcome }] = [at(dueUs), rowOf(line.org), line];
      put(bin, "calls", "offered", offered);
      put(bin, "outcome", outcome, offered);
      put(bin, "offered", org, offered);
      put(bin, "answered", org, classOf(outcome) === "answered" ? offered : 0);
      put(bin, "shed", org, SHED_OUTCOMES.has(outcome) ? offered : 0);
    }
    eachDuration(line, (name, us, atUs, n) => {
      if (name === "latency_from_sent") add(fromSent, bucketOf(us), n);
      else if (IN_BINS.has(name)) put(at(atUs), name, bucketOf(us), n);
    });
  };

  return {
    see: (line: Line | Sample): void => {
      if (line.type === "call" || line.type === "fold") count(line);
      else if (line.type === "sample") {
        const bin = at(line.at_us);
        for (const [name, value] of Object.entries(line.values)) {
          put(bin, /^(?:generator|host)_/.test(name) ? "generator" : "gauges", name, value);
        }
      } else if (events.length < EVENTS_MOST) events.push(eventOf(line));
      else eventsLeftOut += 1;
    },
    limits: ({ replicas, global_in_flight: cap }: Limits): void => {
      if (cap !== undefined) inFlightCap = cap * (replicas ?? 1);
    },
    end: (): StageSeries => {
      const length = bins.size === 0 ? 0 : last - first + 1;
      const all = Array.from({ length }, (_, i): Bin => bins.get(first + i) ?? new Map());
      const list = <N>(section: Section, key: string, none: N) => all.map((bin) => bin.get(section)?.get(key) ?? none);
      const counts = (section: Section, key: string): number[] => list(section, key, 0);
      const each = <T>(section: Section, of: (key: string) => T): Record<string, T> => {
        const keys = new Set(all.flatMap((bin) => [...(bin.get(section)?.keys() ?? [])].map(String)));
        return Object.fromEntries([...keys].sort().map((key) => [key, of(key)]));
      };
      const samples = (section: Section) => each(section, (name) => list(section, name, null));
      return {
        stage,
        from_ms: length === 0 ? 0 : (first * widthUs()) / 1000,
        bin_ms: widthUs() / 1000,
        ...listsOf(COUNTED, (name) => counts("calls", name)),
        by_outcome: each("outcome", (outcome) => counts("outcome", outcome)),
        by_organization: each("offered", (org) => listsOf(BY_ORGANIZATION, (name) => counts(name, org))),
        ...listsOf(TIMED, (name) => all.map((bin) => sparseOf((bin.get(name) as typeof fromSent) ?? []))),
        latency_from_sent: sparseOf(fromSent),
        gauges: samples("gauges"),
        generator: samples("generator"),
        events: events.toSorted((a, b) => a.at_ms - b.at_ms),
        events_left_out: eventsLeftOut,
        in_flight_cap: inFlightCap,
      };
    },
  };
};

/** A fold: `see` every line and sample, `limits` once for each stage whose limits are known; `end` may be read at any time. */
export const seriesFold = () => {
  const stages = new Map<string, ReturnType<typeof stageFold>>();
  const of = (stage: string) => known(stages, stage, () => stageFold(stage));
  return {
    see: (line: Line | Sample): void => of(line.stage).see(line),
    limits: (stage: string, limits: Limits): void => of(stage).limits(limits),
    end: (): Series => {
      const all = [...stages.values()].map((stage) => stage.end());
      return { schema: "floodgate/series@1", stages: all.filter(({ offered }) => offered.length > 0) };
    },
  };
};

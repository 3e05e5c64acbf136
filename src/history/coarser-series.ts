/** The series of a stage with fewer, longer bins, or a part of it: nothing is lost but when exactly. */
import type { StageSeries } from "./series.ts";
import { mergeSparse, type SparseBuckets } from "./statistics/log-buckets.ts";

type Gauge = number | null;

/** How each kind of list becomes another; all of one stage alike. */
type Change = {
  counts(bins: readonly number[]): number[];
  buckets(bins: readonly SparseBuckets[]): SparseBuckets[];
  gauges(bins: readonly Gauge[]): Gauge[];
};

const each = <T, U>(record: Partial<Record<string, T>>, change: (value: T) => U): Record<string, U> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value as T)]));

const changed = (series: StageSeries, { counts, buckets, gauges }: Change): StageSeries => ({
  ...series,
  offered: counts(series.offered),
  started: counts(series.started),
  ended: counts(series.ended),
  by_outcome: each(series.by_outcome, counts),
  by_organization: each(series.by_organization, ({ offered, answered, shed }) => ({
    offered: counts(offered),
    answered: counts(answered),
    shed: counts(shed),
  })),
  latency: buckets(series.latency),
  refusals: buckets(series.refusals),
  first_event: buckets(series.first_event),
  gaps: buckets(series.gaps),
  lag: buckets(series.lag),
  gauges: each<Gauge[], Gauge[]>(series.gauges, gauges),
  generator: each<Gauge[], Gauge[]>(series.generator, gauges),
});

const chunks = <T>(bins: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(bins.length / size) }, (_, i) => bins.slice(i * size, (i + 1) * size));

export const sumsOf = (bins: readonly number[], size: number): number[] =>
  chunks(bins, size).map((chunk) => chunk.reduce((sum, n) => sum + n, 0));

export const mergedOf = (bins: readonly SparseBuckets[], size: number): SparseBuckets[] =>
  chunks(bins, size).map(mergeSparse);

export const largestOf = (bins: readonly Gauge[], size: number): Gauge[] =>
  chunks(bins, size).map((chunk) =>
    chunk.reduce((most, n) => (n === null ? most : most === null ? n : Math.max(most, n)), null),
  );

/** At most `binsMost` bins; the same series where it has no more than that. */
export const coarserSeries = (series: StageSeries, binsMost: number): StageSeries => {
  const size = Math.ceil(series.offered.length / binsMost);
  if (size <= 1) return series;
  const coarse = changed(series, {
    counts: (bins) => sumsOf(bins, size),
    buckets: (bins) => mergedOf(bins, size),
    gauges: (bins) => largestOf(bins, size),
  });
  return { ...coarse, bin_ms: series.bin_ms * size };
};

/** Without the bins before the first call was due and after the last one ended, in which nothing happened. */
export const busyPartOf = (series: StageSeries): StageSeries => {
  const first = series.offered.findIndex((n) => n > 0);
  if (first < 0) return series;
  const last = Math.max(
    series.offered.findLastIndex((n) => n > 0),
    series.ended.findLastIndex((n) => n > 0),
  );
  const cut = <T>(bins: readonly T[]): T[] => bins.slice(first, last + 1);
  return {
    ...changed(series, { counts: cut, buckets: cut, gauges: cut }),
    from_ms: series.from_ms + first * series.bin_ms,
  };
};

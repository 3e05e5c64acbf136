/**
 * `series.json`: a run over time, stage by stage, as counts and histograms for each bin of time. Calls stand where they were
 * *intended*, so that a stall shows as the calls it hit. The bins of a stage add up to its `by_outcome`.
 */
import type { SampleName } from "./sample.ts";
import type { SparseBuckets } from "./statistics/log-buckets.ts";

/** A fault or a named moment, on the run's clock. */
export type SeriesEvent = {
  at_ms: number;
  /** `injecting`, `injected`, `healing`, `healed` of a fault; the name of a mark. */
  name: string;
  /** Of a fault alone. */
  fault?: { experiment: string; link: string; fault: string; took_effect?: boolean };
};

type OrganizationSeries = { offered: number[]; answered: number[]; shed: number[] };

export type StageSeries = {
  stage: string;
  /** When the first bin begins, in milliseconds on the run's clock. */
  from_ms: number;
  /** A second, or less in a short stage and more in a long one. Every list below has one value for each bin. */
  bin_ms: number;
  /** Calls by the moment at which they should have left; their sum over all bins is every call of the stage. */
  offered: number[];
  /** Calls by the moment at which they were handed to the transport, and by the moment at which they ended. */
  started: number[];
  ended: number[];
  /** By intended moment, as in `by_outcome` of the stage. */
  by_outcome: Record<string, number[]>;
  /** By intended moment; from the 65th organization on they are `(others)`. */
  by_organization: Record<string, OrganizationSeries>;
  /** Whole answers, from the intended moment. */
  latency: SparseBuckets[];
  /** Refusals of the platform itself, from the intended moment. */
  refusals: SparseBuckets[];
  /** Streams, from the intended moment to the first event. */
  first_event: SparseBuckets[];
  /** Between two events of a stream, by the moment of the second. */
  gaps: SparseBuckets[];
  /** How late the generator itself was. */
  lag: SparseBuckets[];
  /** Whole answers of all bins, from the moment of sending: what a generator that waits for answers would report. */
  latency_from_sent: SparseBuckets;
  /** The largest sample in each bin, where there is one. */
  gauges: Partial<Record<SampleName, (number | null)[]>>;
  generator: Partial<Record<SampleName, (number | null)[]>>;
  events: SeriesEvent[];
  /** Events beyond the first 500, which are not listed. */
  events_left_out: number;
  /** Calls that all replicas hold before they shed, where the target file states it. */
  in_flight_cap: number | null;
};

export type Series = { schema: "floodgate/series@1"; stages: StageSeries[] };

/** A sum over the bins of a stage. */
export const sumOf = (bins: readonly number[]): number => bins.reduce((sum, n) => sum + n, 0);

/** How late calls left, against their schedule, and from when on that makes the generator the bottleneck. */
import type { Histogram } from "../history/statistics/histogram.ts";
import { LATE_MS } from "../workload/arrivals.ts";

type LagMs = { p50: number; p99: number; max: number };

export const lagFigures = (lag: Histogram): LagMs => {
  const ms = (us: number | null): number => (us ?? 0) / 1000;
  return { p50: ms(lag.quantile(0.5)), p99: ms(lag.quantile(0.99)), max: ms(lag.quantile(1)) };
};

/** Why nothing may be said about time, `null` where calls left as they should. */
export const lagDoubt = ({ p99, max }: LagMs): string | null =>
  p99 <= LATE_MS
    ? null
    : `the generator was the bottleneck: one call in a hundred left more than ${Math.round(p99)} ms late (${Math.round(max)} ms at most)`;

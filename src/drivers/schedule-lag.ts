/** How late calls left, against their schedule, and from when on that makes the generator the bottleneck. */
import { LATE_MS } from "../workload/arrivals.ts";

const CELLS = 10_000;

type LagMs = { p50: number; p99: number; max: number };

export type LagTable = {
  add(lagUs: number): void;
  /** In milliseconds. */
  figures(): LagMs;
};

/** In tenths of a millisecond, the last cell for all above a second. */
export const createLagTable = (): LagTable => {
  const cells = new Uint32Array(CELLS + 1);
  let count = 0;
  let maxMs = 0;
  const at = (share: number): number => {
    let left = share * count;
    for (let cell = 0; cell < cells.length; cell++) {
      left -= cells[cell] as number;
      if (left <= 0) return Math.min(maxMs, (cell + 1) / 10);
    }
    return maxMs;
  };
  return {
    add: (lagUs) => {
      cells[Math.min(CELLS, Math.max(0, Math.floor(lagUs / 100)))]! += 1;
      count += 1;
      maxMs = Math.max(maxMs, lagUs / 1000);
    },
    figures: () => ({ p50: at(0.5), p99: at(0.99), max: maxMs }),
  };
};

/** Why nothing may be said about time, `null` where calls left as they should. */
export const lagDoubt = ({ p99, max }: LagMs): string | null =>
  p99 <= LATE_MS
    ? null
    : `the generator was the bottleneck: one call in a hundred left more than ${Math.round(p99)} ms late (${Math.round(max)} ms at most)`;

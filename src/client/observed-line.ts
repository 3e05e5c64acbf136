/**
 * What our drivers know of a call beyond the history line that every judge reads: how far apart its events came. The extra
 * field travels with the line; who does not know it passes it by.
 */
import type { CallLine } from "../history/line.ts";

export type ObservedLine = CallLine & {
  /** Microseconds between two events, the first 64. */
  gaps_us?: number[];
};

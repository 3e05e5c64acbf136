/** What the search asks of an objective: is this call against it? `p99<=300ms` becomes "at most 1 % take longer than 300 ms". */
import type { CallLine } from "../history/line.ts";

export type ShareObjective = {
  /** As the user wrote it; names the claim. */
  readonly text: string;
  /** Largest share of bad calls, 0 to 1. */
  readonly limit: number;
  /** Speaks of time, so that a busy host puts it in doubt. */
  readonly isTime: boolean;
  /** `null`: the objective does not speak of this call. */
  isBad(line: CallLine): boolean | null;
  /** The objective's value over these calls, to be read in a table. */
  shown(lines: readonly CallLine[]): string;
};

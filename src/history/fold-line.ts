/**
 * Reads a fold of the history (`FoldLine`): as calls that stand for many, and its histograms. Two folds of the same second add
 * up to both.
 */
import type { CallLine, FoldedDuration, FoldLine } from "./line.ts";
import { Histogram } from "./statistics/histogram.ts";

export const FOLD_SPAN_US = 1_000_000;

/** One call for each kind, as it could have been, with how many there were: everything about them lies between its times. */
export function* callsOfFold({ kinds, moments }: FoldLine): Generator<{ call: CallLine; n: number }> {
  if (moments === null) return;
  for (const { call, n } of kinds) {
    const like: CallLine = {
      ...call,
      intended_us: moments.first_intended_us,
      started_us: moments.first_started_us,
      connect_us: 0,
      sent_us: moments.first_sent_us,
      first_us: moments.last_done_us,
      done_us: moments.last_done_us,
    };
    yield { call: like, n };
  }
}

export const durationOf = ({ durations }: FoldLine, name: FoldedDuration): Histogram | null => {
  const json = durations[name];
  return json === undefined ? null : Histogram.fromJSON(json);
};

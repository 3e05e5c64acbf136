/** What a history says of the events of its streams: how many came while all were open, and how far their gaps were off. */
import type { CallLine } from "../history/line.ts";
import { mostAtOnce } from "../history/statistics/statistics.ts";

export type StreamEvents = {
  /** Events a second between the two moments. */
  perS: number;
  /** The hundredth part of the gaps was off by more than this, in either direction, in milliseconds. */
  gapErrorMsP99: number;
  /** Streams that were open at once, at most. */
  held: number;
  /** Streams that ended with their terminal event, and calls that did not. */
  done: number;
  other: number;
};

/** The error of a gap in tenths of a millisecond, the last cell for all above a second. */
const CELLS = 10_000;

/** Whole seconds of the run's clock: `fromUs` to `toUs` is when as many streams are open as there will be. */
export const streamEvents = (
  lines: Iterable<CallLine>,
  { gapMs, fromUs, toUs }: { gapMs: number; fromUs: number; toUs: number },
): StreamEvents => {
  const errors = new Uint32Array(CELLS + 1);
  const spans: [fromUs: number, toUs: number][] = [];
  let [gaps, inside, done, other] = [0, 0, 0, 0];
  for (const { first_us, done_us, first_event_us, gaps_us = [], ended } of lines) {
    if (ended === "done") done += 1;
    else other += 1;
    if (first_us === null || first_event_us === undefined) continue;
    spans.push([first_us, done_us]);
    let atUs = first_event_us;
    if (atUs >= fromUs && atUs < toUs) inside += 1;
    for (const gapUs of gaps_us) {
      atUs += gapUs;
      if (atUs >= fromUs && atUs < toUs) inside += 1;
      const cell = Math.floor(Math.abs(gapUs - 1_000 * gapMs) / 100);
      errors[Math.min(CELLS, cell)]! += 1;
      gaps += 1;
    }
  }
  let left = 0.99 * gaps;
  const cell = errors.findIndex((n) => {
    left -= n;
    return left <= 0;
  });
  return {
    perS: inside / ((toUs - fromUs) / 1e6),
    gapErrorMsP99: gaps === 0 ? Number.NaN : (cell + 1) / 10,
    held: mostAtOnce(spans),
    done,
    other,
  };
};

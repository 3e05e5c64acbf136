/**
 * Many admitted calls in one line of the history: what one organization got in one second, with one outcome. A run at a high
 * rate, or a long one, has more calls than anybody can keep; the admitted ones that are as they should be are counted, and
 * everything else stays a line of its own (call-fold.ts). Two folds of the same second add up to both.
 */
import type { HistogramJson } from "./histogram.ts";
import { Histogram } from "./histogram.ts";
import type { CallLine } from "./line.ts";

export const FOLD_SPAN_US = 1_000_000;

/** What differs from call to call, and is in the histograms or left out. */
type OwnOfCall =
  | "intended_us"
  | "started_us"
  | "connect_us"
  | "sent_us"
  | "first_us"
  | "first_event_us"
  | "last_event_us"
  | "gaps_us"
  | "done_us"
  | "events";

/** What all calls of a kind have in common. Its `id` is the one of the first of them. */
export type CallKind = Omit<CallLine, OwnOfCall>;

export const FOLDED_DURATIONS = [
  /** How late the generator was. */
  "lag",
  /** Whole answers, from the intended moment and from sending. */
  "latency",
  "latency_from_sent",
  /** Of streams. */
  "first_event",
  "first_event_from_sent",
  /** Between two events, in the second of the later one. */
  "gaps",
] as const;
export type FoldedDuration = (typeof FOLDED_DURATIONS)[number];

/** The moments of the calls that were due in the second, in microseconds of the run. */
export type FoldedMoments = {
  first_intended_us: number;
  first_started_us: number;
  last_started_us: number;
  first_sent_us: number;
  last_done_us: number;
};

export type FoldLine = {
  type: "fold";
  stage: string;
  driver: string;
  org: string;
  outcome: string;
  /** The second, by its first microsecond; calls are in that in which they should have left. */
  at_us: number;
  /** Calls that were due in this second, and those that were handed to the transport, and ended, in it. */
  offered: number;
  started: number;
  ended: number;
  /** `null` where none was due. */
  moments: FoldedMoments | null;
  /** Their `n` add up to `offered`. */
  kinds: { call: CallKind; n: number }[];
  /** Only those that are not empty. */
  durations: Partial<Record<FoldedDuration, HistogramJson>>;
};

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

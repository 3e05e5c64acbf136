/** What a line (one call, or a fold of many) counts, for measurements, series, OTLP metrics and folds alike. */
import { isWholeAnswer } from "../contract/streams.ts";
import {
  type CallKind,
  type CallLine,
  classOf,
  FOLDED_DURATIONS,
  type FoldedDuration,
  type FoldedMoments,
  type FoldLine,
} from "./line.ts";
import { Histogram } from "./statistics/histogram.ts";

/** The time that one line of folded calls covers. */
export const FOLD_SPAN_US = 1_000_000;

/** For each duration: its measurement, its quantiles, and the description of its exported metric, if it has one. */
// biome-ignore format: a row is a line
export const DURATIONS = {
  latency: ["latency_ms", [0.5, 0.9, 0.99, 0.999, 1], "Whole answers, from the moment at which a call was due."],
  refusals: ["refusal_ms", [0.5, 0.99], "Refusals, from the moment at which a call was due."],
  lag: ["schedule_lag_ms", [0.5, 0.99], "How late the generator itself was."],
  first_event: ["ttfe_ms", [0.5, 0.99], "First events of streams, from the moment at which a call was due."],
  gaps: ["event_gap_ms", [0.5, 0.99], "Between two events of a stream."],
  latency_from_sent: ["latency_from_sent_ms", [0.5, 0.99], null],
  refusals_from_sent: ["refusal_from_sent_ms", [0.5, 0.99], null],
  first_event_from_sent: ["ttfe_from_sent_ms", [0.5, 0.99], null],
} as const;
export type DurationName = keyof typeof DURATIONS;

export const durationOf = ({ durations }: FoldLine, name: FoldedDuration): Histogram | null => {
  const json = durations[name];
  return json === undefined ? null : Histogram.fromJSON(json);
};

/** `atUs` is the moment that a duration belongs to: a gap's second event, else the moment when the call was due. */
export const durationsOfCall = (
  call: CallLine,
  record: (name: DurationName, us: number, atUs: number) => void,
): void => {
  const { intended_us: dueUs, started_us: startedUs, sent_us: sentUs, done_us: doneUs, outcome } = call;
  // Connecting is the time of target and network; only the time before it is the generator's.
  record("lag", startedUs - dueUs, dueUs);
  const kind = classOf(outcome);
  // `edge` answers were written by something in front of the API.
  if (kind === "refused" && !outcome.startsWith("edge")) {
    record("refusals", doneUs - dueUs, dueUs);
    record("refusals_from_sent", doneUs - sentUs, dueUs);
  }
  if (kind !== "answered") return;
  if (isWholeAnswer(call)) {
    record("latency", doneUs - dueUs, dueUs);
    record("latency_from_sent", doneUs - sentUs, dueUs);
  }
  const { first_event_us: firstEventUs } = call;
  if (firstEventUs === undefined) return;
  record("first_event", firstEventUs - dueUs, dueUs);
  record("first_event_from_sent", firstEventUs - sentUs, dueUs);
  // A slow reader causes gaps itself.
  if (call.slow_reader !== undefined) return;
  let atUs = firstEventUs;
  for (const gapUs of call.gaps_us ?? []) {
    atUs += gapUs;
    record("gaps", gapUs, atUs);
  }
};

/** Records the durations of a line; those of a fold have the precision of its histograms. */
export const eachDuration = (
  line: CallLine | FoldLine,
  record: (name: DurationName, us: number, atUs: number, n: number) => void,
): void => {
  if (line.type === "call") {
    durationsOfCall(line, (name, us, atUs) => record(name, us, atUs, 1));
    return;
  }
  for (const name of FOLDED_DURATIONS)
    for (const { us, count } of durationOf(line, name)?.values() ?? []) record(name, us, line.at_us, count);
};

export const momentsOf = (call: CallLine): FoldedMoments => ({
  first_intended_us: call.intended_us,
  first_started_us: call.started_us,
  last_started_us: call.started_us,
  first_sent_us: call.sent_us,
  last_done_us: call.done_us,
});

/** The moments that cover both; `known` is `null` at first. */
export const joinedMoments = (known: FoldedMoments | null, more: FoldedMoments): FoldedMoments =>
  known === null
    ? more
    : {
        first_intended_us: Math.min(known.first_intended_us, more.first_intended_us),
        first_started_us: Math.min(known.first_started_us, more.first_started_us),
        last_started_us: Math.max(known.last_started_us, more.last_started_us),
        first_sent_us: Math.min(known.first_sent_us, more.first_sent_us),
        last_done_us: Math.max(known.last_done_us, more.last_done_us),
      };

/** The number, kinds and moments of a line's calls; `null` if none was due. */
export const countedIn = (
  line: CallLine | FoldLine,
): { n: number; kinds: { call: CallKind; n: number }[]; moments: FoldedMoments } | null => {
  if (line.type === "call") return { n: 1, kinds: [{ call: line, n: 1 }], moments: momentsOf(line) };
  const { offered, kinds, moments } = line;
  return moments === null ? null : { n: offered, kinds, moments };
};

/** One call for each kind of a fold, with times that enclose those of all calls in the fold. */
export function* callsOfFold({ kinds, moments }: FoldLine): Generator<{ call: CallLine; n: number }> {
  if (moments === null) return;
  const times = {
    ...{ intended_us: moments.first_intended_us, started_us: moments.first_started_us, connect_us: 0 },
    ...{ sent_us: moments.first_sent_us, first_us: moments.last_done_us, done_us: moments.last_done_us },
  };
  for (const { call, n } of kinds) yield { call: { ...call, ...times }, n };
}

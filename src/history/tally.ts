/** What a line (one call, or a fold of many) counts, for measurements, series, OTLP metrics and folds alike; the measurements. */
import { isWholeAnswer, STREAM_ENDS, type StreamEnd } from "../contract/streams.ts";
import {
  type CallLine,
  classOf,
  FOLDED_DURATIONS,
  type FoldedDuration,
  type FoldedMoments,
  type FoldLine,
  type Line,
} from "./line.ts";
import { countedSummary, type Measurement, type StageSummary } from "./run-document.ts";
import { BatchedHistogram, Histogram } from "./statistics/histogram.ts";
import { add, fairnessIndex, type Interval, known, sumOf } from "./statistics/statistics.ts";

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
export const durationsOfCall = (call: CallLine, record: (name: DurationName, us: number, atUs: number) => void) => {
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
const countedIn = (line: CallLine | FoldLine) => {
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

// Folds the lines of one stage into its summary and its measurements, by the names of `run.json`, in bounded memory.

/**
 * `offeredRatePerS`: the schedule's mean, for `rate_error`. `scheduledMs`: how long it sends; without it the rate is read from
 * the gaps between calls. `durationMs`: by default from the first intended moment to the last end.
 */
type StageMeasureOptions = Partial<Record<"offeredRatePerS" | "scheduledMs" | "durationMs", number>>;

type Figure = readonly [name: string, value: number, unit: string, n: number, interval?: Interval | undefined];

/** `p50`, `p999`, `max`. */
const suffixOf = (p: number): string => (p === 1 ? "max" : `p${String(p).slice(2).padEnd(2, "0")}`);

/** A fold: `see` takes every line of the run or of the stage in any order and ignores other stages; then `end` once. */
export const stageMeasure = (stage: string) => {
  const drivers = new Set<string>();
  const outcomes = new Map<string, number>();
  const byOrg = new Map<string, { offered: number; served: number }>();
  let sent = 0;
  const durations = Object.fromEntries(Object.keys(DURATIONS).map((name) => [name, new BatchedHistogram()])) as {
    [name in DurationName]: BatchedHistogram;
  };
  const ends = new Map<StreamEnd, number>();
  const made = { first: 0, retries: 0, mints: 0 };
  let moments: FoldedMoments | null = null;
  /** The moments of first attempts alone: sessions are minted before them, and later steps may begin after them. */
  let arrivals: FoldedMoments | null = null;

  const count = (line: CallLine | FoldLine): void => {
    const counted = countedIn(line);
    if (counted === null) return;
    const { driver, outcome, org } = line;
    sent += counted.n;
    drivers.add(driver);
    add(outcomes, outcome, counted.n);
    // An organization that got no answer counts as zero: leaving out the starved would make a stage look fair.
    if (org !== "-") {
      const own = known(byOrg, org, () => ({ offered: 0, served: 0 }));
      own.offered += counted.n;
      if (classOf(outcome) === "answered") own.served += counted.n;
    }
    moments = joinedMoments(moments, counted.moments);
    for (const { call, n } of counted.kinds) {
      const { unscheduled, attempt, ended } = call;
      if (unscheduled === "mint") made.mints += n;
      else if (attempt > 0) made.retries += n;
      else if (unscheduled === undefined) {
        made.first += n;
        arrivals = joinedMoments(arrivals, counted.moments);
      }
      if (ended !== undefined) add(ends, ended, n);
    }
  };

  /** First attempts per second, over the scheduled time or the longer time that a late generator took. */
  const achievedPerS = (scheduledMs: number): number | null => {
    if (arrivals === null) return null;
    const n = made.first;
    const { first_intended_us: dueUs, first_started_us: firstUs, last_started_us: lastUs } = arrivals;
    if (scheduledMs > 0) return n / (Math.max(scheduledMs, (lastUs - dueUs) / 1000) / 1000);
    const spanS = (lastUs - firstUs) / 1e6;
    return n > 1 && spanS > 0 ? (n - 1) / spanS : null;
  };

  const rates = ({ scheduledMs = 0, offeredRatePerS: offered = 0 }: StageMeasureOptions): Figure[] => {
    const achieved = achievedPerS(scheduledMs);
    if (achieved === null) return [];
    const { first, retries, mints } = made;
    const ofSchedule: Figure[] = [
      ["offered_rate", offered, "1/s", first],
      ["rate_error", achieved / offered - 1, "ratio", first],
    ];
    return [
      ["achieved_rate", achieved, "1/s", first],
      ...(offered > 0 ? ofSchedule : []),
      ["first_attempts", first, "1", sent],
      ["retries", retries, "1", sent],
      ["amplification", (first + retries) / first, "ratio", first],
      ["session_mints", mints, "1", sent],
    ];
  };

  const times = (): Figure[] =>
    Object.entries(DURATIONS).flatMap(([of, [name, quantiles]]) => {
      const all = durations[of as DurationName];
      if (all.whole.n === 0) return [];
      return quantiles.map((p): Figure => {
        const found = p === 1 ? null : all.interval(p);
        const interval = found === null ? undefined : { low: found.low / 1000, high: found.high / 1000 };
        return [`${name}_${suffixOf(p)}`, (all.whole.quantile(p) as number) / 1000, "ms", all.whole.n, interval];
      });
    });

  /** Only ends that were seen, refused streams included. */
  const streams = (): Figure[] => {
    const all = sumOf([...ends.values()]);
    return STREAM_ENDS.flatMap((end) => (ends.has(end) ? [[`streams_${end}`, ends.get(end) ?? 0, "1", all]] : []));
  };

  const fairness = (): Figure[] => {
    const index = byOrg.size < 2 ? null : fairnessIndex([...byOrg.values()]);
    return index === null ? [] : [["jain_index", index, "ratio", byOrg.size]];
  };

  return {
    lag: durations.lag.whole,
    /** When the first arrival of the schedule was due. */
    firstDueUs: (): number => arrivals?.first_intended_us ?? Number.POSITIVE_INFINITY,
    /** Arrivals of the schedule that became calls. */
    arrivals: (): number => made.first,
    see: (line: Line): void => {
      if (line.stage !== stage || (line.type !== "call" && line.type !== "fold")) return;
      if (line.type === "call") {
        // Batches consist of calls, so a gap counts at the moment when its call was due.
        durationsOfCall(line, (name, us) => durations[name].record(us, line.intended_us));
      } else {
        for (const name of FOLDED_DURATIONS) {
          const all = durationOf(line, name);
          if (all !== null) durations[name].merge(all, line.at_us, FOLD_SPAN_US);
        }
      }
      count(line);
    },
    end: (options: StageMeasureOptions = {}): { summary: StageSummary; measurements: Measurement[] } => {
      const spanUs = moments === null ? 0 : moments.last_done_us - moments.first_intended_us;
      const byOutcome = Object.fromEntries([...outcomes].sort(([a], [b]) => (a < b ? -1 : 1)));
      const driver = [...drivers].sort().join("+") || "-";
      const summary = countedSummary(stage, driver, options.durationMs ?? spanUs / 1000, byOutcome);
      const measurements = [...rates(options), ...times(), ...streams(), ...fairness()].map(
        ([name, value, unit, n, interval]) => ({ name, stage, value, unit, low: null, high: null, n, ...interval }),
      );
      return { summary, measurements };
    },
  };
};

export type StageMeasure = ReturnType<typeof stageMeasure>;

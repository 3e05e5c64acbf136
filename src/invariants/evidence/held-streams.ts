/**
 * A lower bound on the streams that the platform held while it admitted a call, from callers' times:
 *
 *     stream       sent ----- first byte ================== last byte
 *     admitted                          sent ---- first byte + margin
 *
 * A stream was held if its first byte came before the call was sent and its last byte after the call's own first byte,
 * provided bytes are read in the order in which they are written. Delays that all streams share cancel out; by how much
 * the streams outlast the call is returned for the judge to weigh. A gateway may delay a last event, so behind a gateway
 * the last but one counts (`BY_CONTENT`), or the bound of `sureSpans`.
 */
import { isStreamed } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";
import { Histogram } from "../../history/statistics/histogram.ts";
import { ascending, sumOf } from "../../history/statistics/statistics.ts";
import { decidedByUs, earliestUs, isAdmitted, isDefinite } from "./moments.ts";

/** Ends made by platform or caller. A broken connection may have broken long before it was noticed. */
const CERTAIN_ENDS = new Set(["done", "error_event", "eof", "closed_by_client"]);

const isHeld = (call: CallLine): boolean =>
  isStreamed(call) && isAdmitted(call) && call.first_us !== null && CERTAIN_ENDS.has(call.ended ?? "");

/** Times are rounded down to whole steps, and those over the most count as the most. */
const STEP_US = 5_000;
const MOST_US = 995_000;

/** The longest time, in microseconds, for which at least `wanted` of the streams go on after `us`; -1 if there are fewer. */
const outlastedBy = (streams: readonly { untilUs: number }[], wanted: number, us: number): number => {
  if (streams.length < wanted) return -1;
  const ends = ascending(streams.map(({ untilUs }) => untilUs));
  const slackUs = (ends[streams.length - wanted] ?? Number.POSITIVE_INFINITY) - us;
  return Math.min(MOST_US, Math.floor(slackUs / STEP_US) * STEP_US);
};

/** Bounds on a call's times at the server, from the caller's. */
type TimesAtServer = {
  /** The latest time at which the call can have been admitted. */
  admittedByUs(call: CallLine): number;
  /** The earliest time at which the server can have ended the stream. */
  heldUntilUs(call: CallLine): number;
};

export const DIRECT_LINE: TimesAtServer = {
  admittedByUs: decidedByUs,
  heldUntilUs: ({ done_us, clock_error_us }) => done_us - clock_error_us,
};

/** Gaps between events, without the gap before the last one. Of a long stream only the first gaps are recorded. */
const contentGaps = ({ gaps_us: gaps = [], events = 0 }: CallLine): readonly number[] =>
  gaps.length < events - 1 ? gaps : gaps.slice(0, -1);

/** Times behind a gateway that delays the last event, for example to moderate the text. */
export const BY_CONTENT: TimesAtServer = {
  admittedByUs: decidedByUs,
  heldUntilUs: (call) =>
    call.gaps_us === undefined || call.first_event_us === undefined
      ? DIRECT_LINE.heldUntilUs(call)
      : call.first_event_us + sumOf(contentGaps(call)) - call.clock_error_us,
};

export const heldStreams = (times: TimesAtServer) => {
  let held: { call: CallLine; fromUs: number; untilUs: number }[] = [];
  let pruneAt = 64;
  return {
    see: (call: CallLine): void => {
      if (!isHeld(call)) return;
      held.push({ call, fromUs: times.admittedByUs(call), untilUs: times.heldUntilUs(call) });
      if (held.length < pruneAt) return;
      held = held.filter(({ call: { done_us } }) => done_us >= call.sent_us);
      pruneAt = Math.max(64, 2 * held.length);
    },
    /** For how long (us, at most 1 s) `cap` streams, and `ownCap` of its organization, outlasted the call; -1: too few. */
    outlasting: (call: CallLine, cap: number, ownCap: number): { all: number; ofOrg: number } => {
      const [fromUs, decidedUs] = [earliestUs(call), times.admittedByUs(call)];
      const beside = held.filter((other) => other.fromUs <= fromUs && other.untilUs >= decidedUs);
      const own = beside.filter((other) => other.call.org === call.org);
      return { all: outlastedBy(beside, cap, decidedUs), ofOrg: outlastedBy(own, ownCap, decidedUs) };
    },
    /** Counts earlier streams that had not ended when the call was sent. */
    aheadOf: ({ sent_us }: CallLine): number => held.filter(({ call: { done_us } }) => done_us >= sent_us).length,
  };
};

/** Fewest answers, other than streams, by which the network's delay is estimated. */
const ENOUGH_PLAIN = 20;
const TRICKLE_QUANTILE = 0.75;
const TRICKLE_TIMES = 2;
/** The quantile is computed again whenever the number of answers has grown by this factor. */
const REFRESH = 1.1;

/** Lower median; 0 if events usually come together. */
const typicalGapUs = (gapsUs: readonly number[]): number => {
  const sorted = [...gapsUs].sort((one, other) => one - other);
  return sorted[(sorted.length - 1) >> 1] ?? 0;
};

/**
 * For how long the server certainly held a stream behind a gateway. A gateway can delay requests, events and the end for
 * any time; it cannot pass on an event that was not written. So the events before the last one count, at the typical gap
 * between them, from the moment of sending:
 *
 *     caller     sent ......... event  event  event  event ............. done
 *     server     |==================|   at least (events - 1) typical gaps, begun when it was sent or later
 *
 * A slow network stretches the gaps too: answers that are not streams show by how much, and twice that is subtracted. If
 * streams take longer on average than `limits.service_ms`, no span is longer than that limit, so that by Little's law
 * calls that just fill the caps never seem to exceed them. Without the limit every span is 0.
 */
export const sureSpans = (serviceMs: number | undefined): TimesAtServer & { see(call: CallLine): void } => {
  /** Times from first to last byte of answers that are not streams. */
  const plain = new Histogram();
  let trickleUs = 0;
  let refreshAt = ENOUGH_PLAIN;
  let streams = 0;
  let streamsUs = 0;
  const spanUs = (call: CallLine): number => {
    if (serviceMs === undefined) return 0;
    const gaps = contentGaps(call);
    const paceUs = Math.max(0, typicalGapUs(gaps) - TRICKLE_TIMES * trickleUs);
    const isStretched = streamsUs > streams * serviceMs * 1000;
    return Math.min(gaps.length * paceUs, sumOf(gaps), isStretched ? serviceMs * 1000 : Number.POSITIVE_INFINITY);
  };
  return {
    see: (call) => {
      if (!isDefinite(call) || call.first_us === null) return;
      if (isStreamed(call) && isAdmitted(call)) {
        streams += 1;
        streamsUs += sumOf(contentGaps(call));
        return;
      }
      plain.record(call.done_us - call.first_us);
      if (plain.n < refreshAt) return;
      trickleUs = plain.quantile(TRICKLE_QUANTILE) ?? 0;
      refreshAt = REFRESH * plain.n;
    },
    /** A gateway may send the head before the server decides, so the first event counts. */
    admittedByUs: ({ first_event_us, done_us, clock_error_us }) => (first_event_us ?? done_us) + clock_error_us,
    heldUntilUs: (call) => earliestUs(call) + spanUs(call),
  };
};

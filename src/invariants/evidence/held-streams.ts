/**
 * A lower bound on the streams that the platform held while it admitted a call, from callers' times:
 *
 *     stream       sent ----- first byte ================== last byte
 *     admitted                          sent ---- first byte + margin
 *
 * A stream was held if its first byte came before the call was sent and its last byte after the call's own first byte,
 * provided bytes are read in the order in which they are written. Delays that all streams share cancel out; the slack
 * of that order is returned for the judge to weigh. An edge may delay a last event, so behind one the last but one
 * counts, or what `SureSpans` says.
 */
import { routeOf } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";
import { sumOf } from "../../history/series.ts";
import { Distribution } from "./distribution.ts";
import { decidedByUs, earliestUs, isAdmitted, isDefinite } from "./moments.ts";

export const isStream = ({ route }: CallLine): boolean => route !== "-" && routeOf(route).stream !== undefined;

/** Ends by platform or caller. A broken connection may have broken long before it was noticed. */
const CERTAIN_ENDS = new Set(["done", "error_event", "eof", "closed_by_client"]);

const isHeld = (call: CallLine): boolean =>
  isStream(call) && isAdmitted(call) && call.first_us !== null && CERTAIN_ENDS.has(call.ended ?? "");

const STEP_US = 5_000;
const STEPS = 200;

/** The highest step reached by `wanted` counts, in microseconds; -1 if there are fewer. */
const highestWith = (steps: Uint32Array, wanted: number): number => {
  let reached = 0;
  for (let step = STEPS - 1; step >= 0; step -= 1) {
    reached += steps[step] as number;
    if (reached >= wanted) return step * STEP_US;
  }
  return -1;
};

/** Bounds on a call's times at the server, from the caller's. */
export type TimesAtServer = {
  /** By when it was admitted, at the latest. */
  admittedByUs(call: CallLine): number;
  /** Until when the server held the stream, at least. */
  heldUntilUs(call: CallLine): number;
};

export const DIRECT_LINE: TimesAtServer = {
  admittedByUs: decidedByUs,
  heldUntilUs: ({ done_us, clock_error_us }) => done_us - clock_error_us,
};

/** Gaps before the last event. Only the first gaps of a long stream are kept. */
const contentGaps = ({ gaps_us: gaps = [], events = 0 }: CallLine): readonly number[] =>
  gaps.length < events - 1 ? gaps : gaps.slice(0, -1);

/** For an edge that delays the end, such as moderation. */
export const BY_CONTENT: TimesAtServer = {
  admittedByUs: decidedByUs,
  heldUntilUs: (call) =>
    call.gaps_us === undefined || call.first_event_us === undefined
      ? DIRECT_LINE.heldUntilUs(call)
      : call.first_event_us + sumOf(contentGaps(call)) - call.clock_error_us,
};

type Held = { call: CallLine; fromUs: number; untilUs: number };

export class HeldStreams {
  readonly #times: TimesAtServer;
  #held: Held[] = [];
  #pruneAt = 64;
  readonly #all = new Uint32Array(STEPS);
  readonly #ofOrg = new Uint32Array(STEPS);

  constructor(times: TimesAtServer) {
    this.#times = times;
  }

  see(call: CallLine): void {
    if (!isHeld(call)) return;
    this.#held.push({
      call,
      fromUs: this.#times.admittedByUs(call),
      untilUs: this.#times.heldUntilUs(call),
    });
    if (this.#held.length < this.#pruneAt) return;
    this.#held = this.#held.filter(({ call: { done_us } }) => done_us >= call.sent_us);
    this.#pruneAt = Math.max(64, 2 * this.#held.length);
  }

  /** Microseconds (steps of 5 ms, up to 1 s) for which `cap` streams, and `ownCap` of the organization, outlasted it; -1: too few. */
  outlasting(call: CallLine, cap: number, ownCap: number): { all: number; ofOrg: number } {
    const fromUs = earliestUs(call);
    const decidedUs = this.#times.admittedByUs(call);
    this.#all.fill(0);
    this.#ofOrg.fill(0);
    for (const other of this.#held) {
      if (other.fromUs > fromUs) continue;
      const slackUs = other.untilUs - decidedUs;
      if (slackUs < 0) continue;
      const step = Math.min(STEPS - 1, Math.floor(slackUs / STEP_US));
      this.#all[step] = (this.#all[step] as number) + 1;
      if (other.call.org === call.org) this.#ofOrg[step] = (this.#ofOrg[step] as number) + 1;
    }
    return { all: highestWith(this.#all, cap), ofOrg: highestWith(this.#ofOrg, ownCap) };
  }

  /** Streams sent before the call and not over when it was sent. */
  aheadOf(call: CallLine): number {
    return this.#held.filter(({ call: { done_us } }) => done_us >= call.sent_us).length;
  }
}

/** With fewer answers that are not streams the line is not known. */
const ENOUGH_PLAIN = 20;
const TRICKLE_QUANTILE = 0.75;
const TRICKLE_TIMES = 2;
/** Answers between two computations of the quantile. */
const REFRESH = 32;

/** Lower median; 0 if events usually come together. */
const typicalGapUs = (gapsUs: readonly number[]): number => {
  const sorted = [...gapsUs].sort((one, other) => one - other);
  return sorted[(sorted.length - 1) >> 1] ?? 0;
};

/**
 * For how long the server certainly held a stream, with an edge in between. An edge can delay requests, events and the
 * end as long as it likes; it cannot pass on an event that was not written. So the events before the last one count,
 * at the typical gap between them, from the moment of sending:
 *
 *     caller     sent ......... event  event  event  event ............. done
 *     server     |==================|   at least (events - 1) typical gaps, begun when it was sent or later
 *
 * A slow line stretches the gaps themselves: refusals show by how much, and twice that is taken off. If streams take
 * longer on average than `limits.service_ms`, that limit is the bound, so that by Little's law calls that fill the
 * caps never seem to be more. Without the limit nothing is certain.
 */
export class SureSpans implements TimesAtServer {
  readonly #serviceUs: number | null;
  /** First to last byte of answers that are not streams. */
  readonly #plain = new Distribution();
  #trickleUs = 0;
  #streams = 0;
  #streamsUs = 0;

  constructor(serviceMs: number | undefined) {
    this.#serviceUs = serviceMs === undefined ? null : serviceMs * 1000;
  }

  see(call: CallLine): void {
    if (!isDefinite(call) || call.first_us === null) return;
    if (isStream(call) && isAdmitted(call)) {
      this.#streams += 1;
      this.#streamsUs += sumOf(contentGaps(call));
      return;
    }
    this.#plain.add(call.done_us - call.first_us);
    if (this.#plain.count % REFRESH === ENOUGH_PLAIN) this.#trickleUs = this.#plain.quantile(TRICKLE_QUANTILE);
  }

  /** An edge may send the head before the server decides. */
  admittedByUs({ first_event_us, done_us, clock_error_us }: CallLine): number {
    return (first_event_us ?? done_us) + clock_error_us;
  }

  heldUntilUs(call: CallLine): number {
    return earliestUs(call) + this.#spanUs(call);
  }

  #spanUs(call: CallLine): number {
    if (this.#serviceUs === null) return 0;
    const gaps = contentGaps(call);
    const paceUs = Math.max(0, typicalGapUs(gaps) - TRICKLE_TIMES * this.#trickleUs);
    const isStretched = this.#streamsUs > this.#streams * this.#serviceUs;
    const mostUs = isStretched ? this.#serviceUs : Number.POSITIVE_INFINITY;
    return Math.min(gaps.length * paceUs, sumOf(gaps), mostUs);
  }
}

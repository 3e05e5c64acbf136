/**
 * How many calls the platform certainly had in flight while it admitted one call, as callers saw it:
 *
 *     stream       sent ----- first byte ================== last byte
 *     admitted                          sent ---- first byte + margin
 *
 * A stream whose first byte had come before the call was sent was certainly in; one whose last byte came after the call's
 * own first byte still was when the call was admitted, if bytes that were written in an order are read in it. All delays that
 * streams share (a busy client, a long line) drop out; by how much that order held is given along, for the judge to weigh.
 * The last event is the server's own on a direct line alone; an edge may delay it, so elsewhere the last but one stands for it,
 * and what is certain there is for `SureSpans` to say.
 */
import { routeOf } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";
import { decidedByUs, earliestUs, isAdmitted } from "./moments.ts";

export const isStream = ({ route }: CallLine): boolean => route !== "-" && routeOf(route).stream !== undefined;

/** Ends that the platform or the caller made; a torn connection may have been torn long before it was seen. */
const CERTAIN_ENDS = new Set(["done", "error_event", "eof", "closed_by_client"]);

const isHeld = (call: CallLine): boolean =>
  isStream(call) && isAdmitted(call) && call.first_us !== null && CERTAIN_ENDS.has(call.ended ?? "");

const STEP_US = 5_000;
const STEPS = 200;

/** The highest step that at least `wanted` reached, in microseconds; below zero when fewer were there. */
const highestWith = (steps: Uint32Array, wanted: number): number => {
  let reached = 0;
  for (let step = STEPS - 1; step >= 0; step -= 1) {
    reached += steps[step] as number;
    if (reached >= wanted) return step * STEP_US;
  }
  return -1;
};

/** How the times of a call at its caller bound those at the server. */
export type TimesAtServer = {
  /** By when the call was admitted. */
  admittedByUs(call: CallLine): number;
  /** Until when the server had the stream, at the least. */
  heldUntilUs(call: CallLine): number;
};

export const DIRECT_LINE: TimesAtServer = {
  admittedByUs: decidedByUs,
  heldUntilUs: ({ done_us, clock_error_us }) => done_us - clock_error_us,
};

/** Between the events before the last one. Of a very long stream the first gaps alone are kept, and the last is not among them. */
export const contentGaps = ({ gaps_us: gaps = [], events = 0 }: CallLine): readonly number[] =>
  gaps.length < events - 1 ? gaps : gaps.slice(0, -1);

export const sumOf = (valuesUs: readonly number[]): number => valuesUs.reduce((sum, value) => sum + value, 0);

/** An edge in front that passes the end on late: a moderation does. */
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

  /** To hear of every call in the order of sending. */
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

  /**
   * By how many microseconds at least `cap` other streams (and `ownCap` of its organization) outlasted the moment that admitted
   * this call, in steps of 5 ms, one second at most. Below zero: fewer than that were certainly in flight.
   */
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

  /** Streams that were sent before the call, not over when it was sent, and all admitted sooner or later. */
  aheadOf(call: CallLine): number {
    return this.#held.filter(({ call: { done_us } }) => done_us >= call.sent_us).length;
  }
}

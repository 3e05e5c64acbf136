/**
 * How many calls the platform certainly had in flight while it let one call in, as callers saw it:
 *
 *     stream       sent ----- first byte ================== last byte
 *     let in                            sent ---- first byte + margin
 *
 * A stream whose first byte had come before the call was sent was certainly in; one whose last byte came after the call's
 * own first byte still was when the call was let in, if bytes that were written in an order are read in it. All delays that
 * streams share (a busy client, a long line) drop out; by how much that order held is told along, for the judge to weigh.
 */
import { routeOf } from "../contract/routes.ts";
import type { CallLine } from "../history/line.ts";
import { decidedByUs, earliestUs, isAdmitted } from "./moments.ts";

export const isStream = ({ route }: CallLine): boolean => route !== "-" && routeOf(route).stream !== undefined;

/** Ends that the platform or the caller made; a torn connection may have been torn long before it was seen. */
const CERTAIN_ENDS = new Set(["done", "error_event", "eof", "closed_by_client"]);

const isHeld = (call: CallLine): boolean =>
  isStream(call) && isAdmitted(call) && call.first_us !== null && CERTAIN_ENDS.has(call.ended ?? "");

export class HeldStreams {
  #held: CallLine[] = [];
  #pruneAt = 64;

  /** To be told of every call in the order of sending. */
  see(call: CallLine): void {
    if (!isHeld(call)) return;
    this.#held.push(call);
    if (this.#held.length < this.#pruneAt) return;
    this.#held = this.#held.filter(({ done_us }) => done_us >= call.sent_us);
    this.#pruneAt = Math.max(64, 2 * this.#held.length);
  }

  /**
   * By how many microseconds at least `cap` other streams (of its organization, where asked) outlasted the letting in of this
   * call. Below zero: fewer than that were certainly in flight.
   */
  outlasting(call: CallLine, cap: number, ofOrg: boolean): number {
    const fromUs = earliestUs(call);
    const untilUs = decidedByUs(call);
    const slacks: number[] = [];
    for (const other of this.#held) {
      if (decidedByUs(other) > fromUs || (ofOrg && other.org !== call.org)) continue;
      const slack = other.done_us - other.clock_error_us - untilUs;
      if (slack >= 0) slacks.push(slack);
    }
    if (slacks.length < cap) return -1;
    return slacks.sort((one, other) => other - one)[cap - 1] ?? Number.POSITIVE_INFINITY;
  }

  /** Streams that were sent before the call, not over when it was sent, and all let in sooner or later. */
  aheadOf(call: CallLine): number {
    return this.#held.filter(({ done_us }) => done_us >= call.sent_us).length;
  }
}

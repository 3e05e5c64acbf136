/**
 * How many calls the platform certainly had in flight while it let one call in, as callers saw it:
 *
 *     stream       sent ----- first byte ================== last byte
 *     let in                            sent ---- first byte + margin
 *
 * A stream whose first byte had come before the call was sent was certainly in; one whose last byte came well after the
 * call's own first byte certainly still was when the call was let in, because both went to a reader the same way. All
 * delays that streams share (a busy client, a long line) drop out; only their order must survive, hence the margin.
 */
import { routeOf } from "../contract/routes.ts";
import type { CallLine } from "../history/line.ts";
import { decidedByUs, earliestUs, isAdmitted } from "./moments.ts";

/** By how much bytes written later may be read earlier: a turn of a busy reader's loop. */
const ORDER_MARGIN_US = 20_000;

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

  /** Other streams that were certainly in flight when this admitted call was let in: in all, and of its organization. */
  beside(call: CallLine): { all: number; ofOrg: number } {
    const fromUs = earliestUs(call);
    const untilUs = decidedByUs(call) + ORDER_MARGIN_US;
    let all = 0;
    let ofOrg = 0;
    for (const other of this.#held) {
      if (other === call || decidedByUs(other) > fromUs || other.done_us - other.clock_error_us < untilUs) continue;
      all += 1;
      if (other.org === call.org) ofOrg += 1;
    }
    return { all, ofOrg };
  }

  /** Other admitted streams that were sent before the call and not over when it was let in, whether let in yet or not. */
  outstandingBeside(call: CallLine): number {
    return this.#held.filter((other) => other !== call && other.done_us >= decidedByUs(call)).length;
  }
}

/**
 * How many calls the platform certainly had in flight while it admitted one call, as callers saw it:
 *
 *     stream       sent ----- first byte ================== last byte
 *     admitted                          sent ---- first byte + margin
 *
 * A stream whose first byte had come before the call was sent was certainly in; one whose last byte came after the call's
 * own first byte still was when the call was admitted, if bytes that were written in an order are read in it. All delays that
 * streams share (a busy client, a long line) drop out; by how much that order held is given along, for the judge to weigh.
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

export class HeldStreams {
  #held: CallLine[] = [];
  #pruneAt = 64;
  readonly #all = new Uint32Array(STEPS);
  readonly #ofOrg = new Uint32Array(STEPS);

  /** To hear of every call in the order of sending. */
  see(call: CallLine): void {
    if (!isHeld(call)) return;
    this.#held.push(call);
    if (this.#held.length < this.#pruneAt) return;
    this.#held = this.#held.filter(({ done_us }) => done_us >= call.sent_us);
    this.#pruneAt = Math.max(64, 2 * this.#held.length);
  }

  /**
   * By how many microseconds at least `cap` other streams (and `ownCap` of its organization) outlasted the moment that admitted
   * this call, in steps of 5 ms, one second at most. Below zero: fewer than that were certainly in flight.
   */
  outlasting(call: CallLine, cap: number, ownCap: number): { all: number; ofOrg: number } {
    const fromUs = earliestUs(call);
    const untilUs = decidedByUs(call);
    this.#all.fill(0);
    this.#ofOrg.fill(0);
    for (const other of this.#held) {
      if (decidedByUs(other) > fromUs) continue;
      const slackUs = other.done_us - other.clock_error_us - untilUs;
      if (slackUs < 0) continue;
      const step = Math.min(STEPS - 1, Math.floor(slackUs / STEP_US));
      this.#all[step] = (this.#all[step] as number) + 1;
      if (other.org === call.org) this.#ofOrg[step] = (this.#ofOrg[step] as number) + 1;
    }
    return { all: highestWith(this.#all, cap), ofOrg: highestWith(this.#ofOrg, ownCap) };
  }

  /** Streams that were sent before the call, not over when it was sent, and all admitted sooner or later. */
  aheadOf(call: CallLine): number {
    return this.#held.filter(({ done_us }) => done_us >= call.sent_us).length;
  }
}

/**
 * When something can have happened at the server, by the caller's clock: everything about a call lies between
 * its sending and its end, each widened by how far that clock may be off. A judge accuses only by what holds for every
 * moment in between.
 */
import { Heap } from "../../history/heap.ts";
import type { CallLine, Line } from "../../history/line.ts";
import { lineTimeUs } from "../../history/line.ts";

export const earliestUs = (call: CallLine): number => call.sent_us - call.clock_error_us;
export const latestUs = (call: CallLine): number => call.done_us + call.clock_error_us;

/** Until when the decision to admit the call must have fallen: its first byte came after it. */
export const decidedByUs = (call: CallLine): number => (call.first_us ?? call.done_us) + call.clock_error_us;

/** Whether the platform gave an answer of its own, as opposed to none, or one by a balancer in between. */
export const isDefinite = (call: CallLine): boolean =>
  call.outcome !== "indeterminate" && !call.outcome.startsWith("edge ");

/** Any 2xx, also one that reports a failure inside it. */
export const isAdmitted = (call: CallLine): boolean => /^2\d\d/.test(call.outcome);

/** A mark or a fault line is written this much around what it reports, at most. */
export const MARK_MARGIN_US = 1_000_000;

/**
 * Hands calls over in the order in which they were over, and only once every mark that can touch them has been seen.
 */
export class Settling {
  readonly #waiting = new Heap<CallLine>();
  readonly #settle: (call: CallLine) => void;

  constructor(settle: (call: CallLine) => void) {
    this.#settle = settle;
  }

  add(call: CallLine): void {
    this.#waiting.push(latestUs(call), call);
  }

  /** To hear of every line, before the judge looks at it. */
  reach(line: Line): void {
    this.#settleBefore(lineTimeUs(line) - MARK_MARGIN_US);
  }

  finish(): void {
    this.#settleBefore(Number.POSITIVE_INFINITY);
  }

  /** Calls that are not over yet, or not long enough. */
  waiting(): Iterable<CallLine> {
    return this.#waiting.items();
  }

  #settleBefore(us: number): void {
    while (this.#waiting.size > 0 && this.#waiting.least < us) this.#settle(this.#waiting.pop() as CallLine);
  }
}

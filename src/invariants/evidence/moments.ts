/**
 * When the server can have handled a call, by the caller's clock: between its sending and its end, each widened by the
 * clock's error. A judge accuses only by what holds for every moment in between.
 */
import { outcomeOf, SHEDS } from "../../contract/refusals.ts";
import { Heap } from "../../history/heap.ts";
import type { CallLine, Line } from "../../history/line.ts";
import { lineTimeUs } from "../../history/line.ts";

export const earliestUs = (call: CallLine): number => call.sent_us - call.clock_error_us;
export const latestUs = (call: CallLine): number => call.done_us + call.clock_error_us;

/** By when the call was admitted or refused: its first byte came later. */
export const decidedByUs = (call: CallLine): number => (call.first_us ?? call.done_us) + call.clock_error_us;

/** The platform itself answered, rather than nobody or a balancer in between. */
export const isDefinite = (call: CallLine): boolean =>
  call.outcome !== "indeterminate" && !call.outcome.startsWith("edge ");

/** Any 2xx, including one that reports a failure in its body. */
export const isAdmitted = (call: CallLine): boolean => /^2\d\d/.test(call.outcome);

const SHED = new Set(SHEDS.map(outcomeOf));
export const isShed = ({ outcome }: CallLine): boolean => SHED.has(outcome);

/** The most by which a mark or fault line is off from what it reports. */
export const MARK_MARGIN_US = 1_000_000;

/** Delivers calls in the order of their completion, each only after all marks that could overlap it have been read. */
export class Settling {
  readonly #waiting = new Heap<CallLine>();
  readonly #settle: (call: CallLine) => void;

  constructor(settle: (call: CallLine) => void) {
    this.#settle = settle;
  }

  add(call: CallLine): void {
    this.#waiting.push(latestUs(call), call);
  }

  /** Takes every line, before the judge does. */
  reach(line: Line): void {
    this.#settleBefore(lineTimeUs(line) - MARK_MARGIN_US);
  }

  finish(): void {
    this.#settleBefore(Number.POSITIVE_INFINITY);
  }

  /** Calls not delivered yet. */
  waiting(): Iterable<CallLine> {
    return this.#waiting.items();
  }

  #settleBefore(us: number): void {
    while (this.#waiting.size > 0 && this.#waiting.least < us) this.#settle(this.#waiting.pop() as CallLine);
  }
}

/**
 * Whether a platform that is full goes on working. Beyond its cap it may refuse, but what it has taken in must come out:
 * counts how long callers saw it full, what came out meanwhile, and what never did.
 */
import { outcomeOf, SHEDS } from "../../contract/refusals.ts";
import { Heap } from "../../history/heap.ts";
import { type CallLine, type Line, lineTimeUs } from "../../history/line.ts";
import { Evidence } from "../invariant.ts";
import { Distribution } from "./distribution.ts";
import { isDefinite } from "./moments.ts";

const SHED = new Set(SHEDS.map(outcomeOf));

export class OverloadProgress {
  readonly #full: number;
  /** Calls that got an answer, until they got it; and all calls that were waiting, answered or not. */
  readonly #served = new Heap<CallLine>();
  readonly #waiting = new Heap<CallLine>();
  #nowUs = Number.NEGATIVE_INFINITY;
  /** The last moment at which it was full. */
  #fullAtUs = Number.NEGATIVE_INFINITY;
  /** How long as many calls as the caps hold were waiting or being served and did get their answer, in microseconds. */
  fullUs = 0;
  /**
   * Definite answers, other than sheds, of calls that met it full. Counted over the whole of a call, because where all take
   * equally long a full platform empties and fills in one stroke, and only the first to come out would find it full.
   */
  came = 0;
  /** Calls sent while it was full, and those of them that got no answer at all though nobody cut them off. */
  sent = 0;
  readonly lost = new Evidence();
  #sentBelow = 0;
  #lostBelow = 0;
  /** How long a shed took: what a call costs that is not served. */
  readonly sheds = new Distribution();
  /** Callers slow streams down: what comes out is then not the platform's doing alone. */
  disturbed = false;

  /** `full`: the caps of all replicas together. */
  constructor(full: number) {
    this.#full = full;
  }

  see(line: Line): void {
    this.#runUntil(lineTimeUs(line));
    if (line.type !== "call") return;
    if (line.slow_reader === true) this.disturbed = true;
    const cutOff = line.aborted === true || line.error === "connection_refused";
    const lost = line.outcome === "indeterminate" && !cutOff;
    if (this.#waiting.size < this.#full) {
      this.#sentBelow += 1;
      if (lost) this.#lostBelow += 1;
    } else {
      this.sent += 1;
      if (lost) this.lost.breach(line.id, "no answer");
    }
    if (SHED.has(line.outcome)) {
      this.sheds.add(line.done_us - line.sent_us);
      return;
    }
    this.#waiting.push(line.done_us, line);
    if (isDefinite(line)) this.#served.push(line.done_us, line);
  }

  /** The share of calls that get no answer when the platform is not full either: a matter of the line. */
  get usuallyLost(): number {
    return (this.#lostBelow + 1) / (this.#sentBelow + 2);
  }

  finish(): void {
    this.#runUntil(Number.POSITIVE_INFINITY);
  }

  #runUntil(us: number): void {
    while (this.#waiting.least < us) this.#waiting.pop();
    while (this.#served.least < us) {
      this.#advance(this.#served.least);
      const call = this.#served.pop() as CallLine;
      // Who left took nothing out.
      if (call.aborted !== true && call.sent_us <= this.#fullAtUs) this.came += 1;
    }
    if (us !== Number.POSITIVE_INFINITY) this.#advance(us);
  }

  #advance(us: number): void {
    const began = this.#nowUs !== Number.NEGATIVE_INFINITY;
    if (began && this.#served.size >= this.#full) {
      this.fullUs += us - this.#nowUs;
      this.#fullAtUs = us;
    }
    this.#nowUs = us;
  }
}

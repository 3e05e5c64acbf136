/**
 * Whether a platform that is full goes on working. Beyond its cap it may refuse, but what it has taken in must come out:
 * counts how long callers saw it full, what came out meanwhile, and what never did.
 */
import { type CallLine, type Line, lineTimeUs } from "../history/line.ts";
import { Heap } from "./heap.ts";
import { Evidence } from "./invariant.ts";
import { isDefinite } from "./moments.ts";

const SHED = new Set(["429 b2b_overloaded", "429 org_overloaded"]);

export class OverloadProgress {
  readonly #full: number;
  readonly #ends = new Heap<CallLine>();
  #nowUs = Number.NEGATIVE_INFINITY;
  /** How long at least as many calls as the caps hold were waiting or being served, in microseconds. */
  fullUs = 0;
  /** Definite answers, other than sheds, that came while it was full. */
  came = 0;
  /** Calls sent while it was full, and those of them that got no answer at all though nobody cut them off. */
  sent = 0;
  readonly lost = new Evidence();
  /** Callers that slow a stream down or leave it: what comes out is then not the platform's doing alone. */
  disturbed = false;

  /** `full`: the caps of all replicas together. */
  constructor(full: number) {
    this.#full = full;
  }

  see(line: Line): void {
    this.#runUntil(lineTimeUs(line));
    if (line.type !== "call") return;
    if (line.slow_reader === true) this.disturbed = true;
    const full = this.#ends.size >= this.#full;
    if (full) {
      this.sent += 1;
      if (line.outcome === "indeterminate" && line.aborted !== true && line.error !== "ECONNREFUSED") {
        this.lost.breach(line.id, "no answer");
      }
    }
    if (!SHED.has(line.outcome)) this.#ends.push(line.done_us, line);
  }

  finish(): void {
    this.#runUntil(Number.POSITIVE_INFINITY);
  }

  #runUntil(us: number): void {
    while (this.#ends.least < us) {
      this.#advance(this.#ends.least);
      const full = this.#ends.size >= this.#full;
      const call = this.#ends.pop() as CallLine;
      if (full && isDefinite(call)) this.came += 1;
    }
    if (us !== Number.POSITIVE_INFINITY) this.#advance(us);
  }

  #advance(us: number): void {
    if (this.#ends.size >= this.#full && this.#nowUs !== Number.NEGATIVE_INFINITY) this.fullUs += us - this.#nowUs;
    this.#nowUs = us;
  }
}

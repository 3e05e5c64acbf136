/** Two signs of a cap that does not hold: calls admitted above it, and a full platform that stops working. */
import { Heap } from "../../history/heap.ts";
import { type CallLine, type Line, lineTimeUs } from "../../history/line.ts";
import { Evidence } from "../invariant.ts";
import { Distribution } from "./distribution.ts";
import { isStream } from "./held-streams.ts";
import { isAdmitted, isDefinite, isShed } from "./moments.ts";

/** One turn of a busy reader's event loop. */
const LEAST_MARGIN_US = 20_000;
const ENOUGH_QUICK = 20;
const ENOUGH_STANDING_OUT = 3;
const RULE_COUNT = 10;
const RULE_SHARE = 0.2;
/** A stalled reader sees bytes out of order sometimes; a cap that is too high shows in every call that fills it. */
const RARE_SHARE = 0.01;

export class AdmittedAbove {
  readonly evidence = new Evidence();
  readonly #slacks = new Distribution();
  readonly #quick = new Distribution();
  #admitted = 0;

  /** Takes every call; those that are not streams show how connections' delays differ. */
  see(call: CallLine): void {
    if (isDefinite(call) && !(isStream(call) && isAdmitted(call))) this.#quick.add(call.done_us - call.sent_us);
  }

  /** `slackUs`: how long the streams of a whole cap outlasted this call's admission. */
  admitted(call: CallLine, slackUs: number, got: string): void {
    this.#admitted += 1;
    if (slackUs < LEAST_MARGIN_US) return;
    this.#slacks.add(slackUs);
    this.evidence.breach(call.id, got);
  }

  isCertain(): boolean {
    return this.isTheRule() || this.#standingOut() >= ENOUGH_STANDING_OUT;
  }

  /** Whether so many calls are above the cap that it cannot be chance. */
  isTheRule(): boolean {
    const { count } = this.#slacks;
    return count >= RULE_COUNT && count >= RULE_SHARE * this.#admitted;
  }

  /** Whether the few calls above the cap are explained by the order of reading. */
  isExplained(): boolean {
    const { count } = this.#slacks;
    return this.#quick.count >= ENOUGH_QUICK && count <= RARE_SHARE * this.#admitted && this.#standingOut() === 0;
  }

  /** Number of calls above the cap by more than the delays of two connections differ; 0 if quick answers are too few to tell. */
  #standingOut(): number {
    if (this.#quick.count < ENOUGH_QUICK) return 0;
    const differUs = this.#quick.quantile(0.98) - this.#quick.quantile(0.02);
    return this.#slacks.above(Math.max(LEAST_MARGIN_US, 1.5 * differUs));
  }
}

/** Whether a full platform goes on working: how long callers saw it full, what was served, what got no answer. */
export class OverloadProgress {
  readonly #full: number;
  /** Answered calls until their answer, and all calls until their end. */
  readonly #served = new Heap<CallLine>();
  readonly #waiting = new Heap<CallLine>();
  #nowUs = Number.NEGATIVE_INFINITY;
  #fullAtUs = Number.NEGATIVE_INFINITY;
  /** For how long the caps were full of calls that were answered later, in microseconds. */
  fullUs = 0;
  /**
   * Answers, other than sheds, of calls during which it was full. Not only those that came while it was full: equally long calls
   * all end at once.
   */
  came = 0;
  /** Calls sent while it was full, and those that got no answer. */
  sent = 0;
  readonly lost = new Evidence();
  #sentBelow = 0;
  #lostBelow = 0;
  readonly sheds = new Distribution();
  /** Callers read slowly, so the goodput is not the platform's alone. */
  disturbed = false;

  /** `full`: the caps of all replicas. */
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
    if (isShed(line)) {
      this.sheds.add(line.done_us - line.sent_us);
      return;
    }
    this.#waiting.push(line.done_us, line);
    if (isDefinite(line)) this.#served.push(line.done_us, line);
  }

  /** Share of calls without an answer below the caps, lost by the network. */
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
      // A call whose caller left was not served.
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

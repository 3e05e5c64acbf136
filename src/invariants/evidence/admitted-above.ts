/**
 * Weighs calls that seem to have been admitted above a cap. What shows it is that streams were read to their end after the
 * call's first byte; bytes can be read in another order than they were written, by as much as the ways of two connections
 * differ. So either a few stand out by more than quick answers of the stage ever differ, or it is the rule and no accident.
 */
import type { CallLine } from "../../history/line.ts";
import { Evidence } from "../invariant.ts";
import { Distribution } from "./distribution.ts";
import { isStream } from "./held-streams.ts";
import { isAdmitted, isDefinite } from "./moments.ts";

/** A turn of a busy reader's loop. */
const LEAST_MARGIN_US = 20_000;
const ENOUGH_QUICK = 20;
const ENOUGH_STANDING_OUT = 3;
const RULE_COUNT = 10;
const RULE_SHARE = 0.2;
/** A cap that is too high shows at most calls that fill it; bytes of a stalled reader come out of order once in a while. */
const RARE_SHARE = 0.01;

export class AdmittedAbove {
  readonly evidence = new Evidence();
  readonly #slacks = new Distribution();
  readonly #quick = new Distribution();
  #admitted = 0;

  /** To hear of every call: what is no stream shows how much the ways differ. */
  see(call: CallLine): void {
    if (isDefinite(call) && !(isStream(call) && isAdmitted(call))) this.#quick.add(call.done_us - call.sent_us);
  }

  /** `slackUs`: by how much the streams of a whole cap outlasted the moment at which this call was admitted. */
  admitted(call: CallLine, slackUs: number, got: string): void {
    this.#admitted += 1;
    if (slackUs < LEAST_MARGIN_US) return;
    this.#slacks.add(slackUs);
    this.evidence.breach(call.id, got);
  }

  isCertain(): boolean {
    return this.isTheRule() || this.#standingOut() >= ENOUGH_STANDING_OUT;
  }

  /** So many are above that it is no accident of single calls. */
  isTheRule(): boolean {
    const { count } = this.#slacks;
    return count >= RULE_COUNT && count >= RULE_SHARE * this.#admitted;
  }

  /** A few calls seem to be above, none of them by more than quick answers of the stage differ: the order of reading. */
  isExplained(): boolean {
    const { count } = this.#slacks;
    return this.#quick.count >= ENOUGH_QUICK && count <= RARE_SHARE * this.#admitted && this.#standingOut() === 0;
  }

  /** Calls above by more than the ways of two connections differ; none where too few quick answers show by how much. */
  #standingOut(): number {
    if (this.#quick.count < ENOUGH_QUICK) return 0;
    const differUs = this.#quick.quantile(0.98) - this.#quick.quantile(0.02);
    return this.#slacks.above(Math.max(LEAST_MARGIN_US, 1.5 * differUs));
  }
}

/**
 * For how long the server certainly had a stream, where something may stand between it and the caller. An edge can hold a
 * request back, pass events on late, together or a few bytes at a time, and delay the end for as long as it likes (a moderation
 * does); it cannot pass on an event that was not written. So what counts are the events before the last one, at the pace of
 * the typical gap between them, from the moment of sending:
 *
 *     caller     sent ......... event  event  event  event ............. done
 *     server     |==================|   at least (events - 1) typical gaps, and began when it was sent or later
 *
 * A line on which bodies trickle stretches the gaps themselves. Refusals show by how much, and it is taken off twice over,
 * because an event may be longer than a refusal. And where streams take longer on average than the target file says that they
 * do (`limits.service_ms`), what it says stands for the pace: by Little's law as many as fill the caps then never seem to
 * be more. Where it does not say, nothing is certain.
 */
import type { CallLine } from "../../history/line.ts";
import { Distribution } from "./distribution.ts";
import { contentGaps, isStream, sumOf, type TimesAtServer } from "./held-streams.ts";
import { earliestUs, isAdmitted, isDefinite } from "./moments.ts";

/** Fewer answers that are no streams do not show how bodies come. */
const ENOUGH_PLAIN = 20;
const TRICKLE_QUANTILE = 0.75;
const TRICKLE_TIMES = 2;
/** A quantile is read again when so many more answers have come. */
const REFRESH = 32;

/** Between two events before the last one, the lower of the two in the middle; 0 where several came together as a rule. */
const typicalGapUs = (gapsUs: readonly number[]): number => {
  const sorted = [...gapsUs].sort((one, other) => one - other);
  return sorted[(sorted.length - 1) >> 1] ?? 0;
};

export class SureSpans implements TimesAtServer {
  readonly #serviceUs: number | null;
  /** From the first byte of an answer that is no stream to its last. */
  readonly #plain = new Distribution();
  #trickleUs = 0;
  #streams = 0;
  #streamsUs = 0;

  constructor(serviceMs: number | undefined) {
    this.#serviceUs = serviceMs === undefined ? null : serviceMs * 1000;
  }

  /** To hear of every call, before it is asked about. */
  see(call: CallLine): void {
    if (!isDefinite(call) || call.first_us === null) return;
    if (isStream(call) && isAdmitted(call)) {
      this.#streams += 1;
      this.#streamsUs += sumOf(contentGaps(call));
      return;
    }
    this.#plain.add(call.done_us - call.first_us);
    if (this.#plain.count % REFRESH === ENOUGH_PLAIN) this.#trickleUs = this.#plain.quantile(TRICKLE_QUANTILE);
  }

  /** An edge may send a head of its own before the server has decided anything. */
  admittedByUs({ first_event_us, done_us, clock_error_us }: CallLine): number {
    return (first_event_us ?? done_us) + clock_error_us;
  }

  heldUntilUs(call: CallLine): number {
    return earliestUs(call) + this.#spanUs(call);
  }

  /** From the moment of sending; 0 where nothing is certain. */
  #spanUs(call: CallLine): number {
    if (this.#serviceUs === null) return 0;
    // The last event is the edge's to delay.
    const gaps = contentGaps(call);
    const paceUs = Math.max(0, typicalGapUs(gaps) - TRICKLE_TIMES * this.#trickleUs);
    const isStretched = this.#streamsUs > this.#streams * this.#serviceUs;
    const mostUs = isStretched ? this.#serviceUs : Number.POSITIVE_INFINITY;
    return Math.min(gaps.length * paceUs, sumOf(gaps), mostUs);
  }
}

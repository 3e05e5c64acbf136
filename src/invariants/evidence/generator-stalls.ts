/**
 * When the generator of the load stood still itself: calls that should have left in that time left all together after it. On
 * a machine that gives nobody any CPU for seconds the deployment beside it stands still as well, and whoever waited then did
 * not wait for a dependency. Only a stall that is seen excuses, and only for as long as it lasted.
 */
import type { CallLine } from "../../history/line.ts";

/** A schedule is kept to within some milliseconds; less than this is no stall. */
const STALL_US = 250_000;

type Span = { fromUs: number; toUs: number };

export class GeneratorStalls {
  /** They do not overlap. */
  #spans: Span[] = [];

  see({ intended_us: fromUs, sent_us: toUs }: CallLine): void {
    if (toUs - fromUs < STALL_US) return;
    const meets = (span: Span): boolean => span.fromUs <= toUs && span.toUs >= fromUs;
    const one = this.#spans
      .filter(meets)
      .reduce(
        (whole, span) => ({ fromUs: Math.min(whole.fromUs, span.fromUs), toUs: Math.max(whole.toUs, span.toUs) }),
        { fromUs, toUs },
      );
    this.#spans = [...this.#spans.filter((span) => !meets(span)), one];
  }

  /** How long of a span it stood still, in microseconds. */
  within(fromUs: number, toUs: number): number {
    return this.#spans.reduce(
      (sum, span) => sum + Math.max(0, Math.min(toUs, span.toUs) - Math.max(fromUs, span.fromUs)),
      0,
    );
  }
}

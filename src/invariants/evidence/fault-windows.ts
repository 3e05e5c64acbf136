/**
 * When a dependency was certainly broken, by the lines of the experiments: from `injected`, where the fault was seen
 * to bite, to `healing`, where somebody began to take it away. What lies between asking and confirming belongs to neither.
 */
import type { CallLine, FaultLine } from "../../history/line.ts";
import { decidedByUs, earliestUs } from "./moments.ts";

type FaultWindow = { link: string; fault: string; fromUs: number; toUs: number; tookEffect: boolean };

/**
 * Faults that let no answer of the dependency through while they last. The others (slow within the budget, flapping,
 * trickling, truncation that a short reply slips under) let some through, so a call may well be admitted.
 */
const CERTAIN =
  /^(refused|accepted-then-closed|request-lost|reply-lost|reset|slow-beyond-budget|killed|stopped|process-killed|process-stopped|store-error|oom|readonly|loading)$/;

export const letsNothingThrough = ({ fault, tookEffect }: FaultWindow): boolean => tookEffect && CERTAIN.test(fault);

export class FaultWindows {
  readonly all: FaultWindow[] = [];

  see(line: FaultLine): void {
    const { link, fault, phase, at_us } = line;
    if (phase === "injected") {
      const tookEffect = line.took_effect === true;
      this.all.push({ link, fault, fromUs: at_us, toUs: Number.POSITIVE_INFINITY, tookEffect });
    }
    if (phase !== "healing") return;
    for (const window of this.all) {
      if (window.link === link && window.fault === fault && window.toUs > at_us) window.toUs = at_us;
    }
  }

  /** The windows of a link inside which the call was sent and decided. */
  around(call: CallLine, link: string): FaultWindow[] {
    return this.all.filter(
      (window) => window.link === link && earliestUs(call) >= window.fromUs && decidedByUs(call) <= window.toUs,
    );
  }
}

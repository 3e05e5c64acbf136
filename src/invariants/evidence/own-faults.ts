/**
 * When our own faults may have touched a call: from the moment at which one was asked for until it was seen to be healed, each
 * widened by how far a line may be from what it reports. Wider than `fault-windows.ts`, which says when a dependency was
 * certainly broken: what excuses a call has to cover everything that we may have done to it.
 */
import type { CallLine, FaultLine } from "../../history/line.ts";
import { earliestUs, latestUs, MARK_MARGIN_US } from "./moments.ts";

/** What an operator may do to a service that works: nothing breaks by it, so it excuses nothing. */
const CHANGED_IN_ORDER = "service";

type Span = { link: string; fault: string; fromUs: number; toUs: number };

export class OwnFaults {
  readonly #spans: Span[] = [];

  see({ link, fault, phase, at_us: atUs }: FaultLine): void {
    if (link === CHANGED_IN_ORDER) return;
    if (phase === "injecting") {
      this.#spans.push({ link, fault, fromUs: atUs - MARK_MARGIN_US, toUs: Number.POSITIVE_INFINITY });
    }
    if (phase !== "healed") return;
    const isOpen = (span: Span): boolean => span.toUs === Number.POSITIVE_INFINITY;
    const healed = this.#spans.find((span) => span.link === link && span.fault === fault && isOpen(span));
    if (healed !== undefined) healed.toUs = atUs + MARK_MARGIN_US;
  }

  overlaps(call: CallLine): boolean {
    return this.#spans.some(({ fromUs, toUs }) => latestUs(call) >= fromUs && earliestUs(call) <= toUs);
  }
}

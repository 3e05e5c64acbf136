/**
 * When a dependency was certainly broken, by the lines of the experiments: from `injected`, where the fault was seen
 * to bite, to `healing`, where somebody began to take it away. What lies between asking and confirming belongs to neither.
 * While another fault is put on the same link, or taken off it, the link is rebuilt, and what it held back may get through
 * (toxiproxy's latency hands on what it holds whenever the chain of toxics changes): such a change ends a window, and begins
 * another one when it is done.
 */
import type { CallLine, FaultLine } from "../../history/line.ts";
import { decidedByUs, earliestUs } from "./moments.ts";

type FaultWindow = { link: string; fault: string; fromUs: number; toUs: number; tookEffect: boolean };

/** The outcome of a call that needs a broken dependency (requirements 153, 213, 216). */
export const REFUSAL_OF: Readonly<Record<"limiter" | "keys", string>> = {
  limiter: "429 limiter_unavailable",
  keys: "503",
};

/**
 * Faults that let no answer of the dependency through while they last. The others (slow within the budget, flapping,
 * trickling, truncation that a short reply slips under) let some through, so a call may well be admitted.
 */
export const LETS_NOTHING_THROUGH: ReadonlySet<string> = new Set([
  ...["refused", "accepted-then-closed", "request-lost", "reply-lost", "reset", "slow-beyond-budget"],
  ...["killed", "stopped", "process-killed", "process-stopped", "store-error", "oom", "readonly", "loading"],
]);

export const letsNothingThrough = ({ fault, tookEffect }: FaultWindow): boolean =>
  tookEffect && LETS_NOTHING_THROUGH.has(fault);

export class FaultWindows {
  readonly all: FaultWindow[] = [];
  #inForce: Omit<FaultWindow, "fromUs" | "toUs">[] = [];
  /** How many changes of a link are under way. */
  readonly #changes = new Map<string, number>();

  see({ link, fault, phase, at_us: atUs, took_effect }: FaultLine): void {
    const begins = phase === "injecting" || phase === "healing";
    const changes = Math.max(0, (this.#changes.get(link) ?? 0) + (begins ? 1 : -1));
    this.#changes.set(link, changes);
    if (begins) for (const window of this.all) if (window.link === link) window.toUs = Math.min(window.toUs, atUs);
    if (phase === "injected") this.#inForce.push({ link, fault, tookEffect: took_effect === true });
    if (phase === "healing") this.#inForce = this.#inForce.filter((one) => one.link !== link || one.fault !== fault);
    if (begins || changes > 0) return;
    for (const one of this.#inForce.filter((each) => each.link === link)) {
      this.all.push({ ...one, fromUs: atUs, toUs: Number.POSITIVE_INFINITY });
    }
  }

  /** The windows of a link inside which the call was sent and decided. */
  around(call: CallLine, link: string): FaultWindow[] {
    return this.all.filter(
      (window) => window.link === link && earliestUs(call) >= window.fromUs && decidedByUs(call) <= window.toUs,
    );
  }
}

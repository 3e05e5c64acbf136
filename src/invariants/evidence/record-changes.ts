/**
 * Records of keys and organizations may be as old as the revocation budget (item 142), and a change takes effect
 * between its request and its confirmation. Meanwhile a call may be answered by either state.
 */
import { type CallLine, type Line, lineTimeUs } from "../../history/line.ts";
import type { StageFacts } from "../../history/stage-facts.ts";
import { isUnnamed } from "./deployment.ts";
import { earliestUs, isAdmitted, isDefinite, latestUs, MARK_MARGIN_US } from "./moments.ts";

/** For a deployment that does not say how old its records may be. */
const UNKNOWN_BUDGET_MS = 60_000;
const MARGIN_US = 100_000;

type Span = { fromUs: number; untilUs: number };

const mayChangeKeys = (call: CallLine): boolean =>
  (call.route === "keys.update" || call.route === "keys.delete") && (isAdmitted(call) || !isDefinite(call));

export class RecordChanges {
  readonly #spans = new Map<string, Span[]>();
  readonly #budgetUs: number;
  readonly #youthUs: number;
  #startUs = Number.POSITIVE_INFINITY;

  constructor(facts: StageFacts) {
    const budgetMs = facts.limits.revocation_budget_ms;
    this.#budgetUs = (budgetMs ?? UNKNOWN_BUDGET_MS) * 1000 + MARGIN_US;
    // Credentials of a foreign deployment were made long before a run.
    this.#youthUs = budgetMs === undefined ? 0 : this.#budgetUs;
  }

  /** Takes every line; marks of an organization and changes of its keys count. */
  see(line: Line): void {
    if (this.#startUs === Number.POSITIVE_INFINITY) this.#startUs = lineTimeUs(line);
    if (line.type === "mark" && line.org !== undefined) {
      this.#add(line.org, { fromUs: line.at_us - MARK_MARGIN_US, untilUs: line.at_us + this.#budgetUs });
    }
    if (line.type === "call" && mayChangeKeys(line)) {
      this.#add(line.org, { fromUs: earliestUs(line), untilUs: latestUs(line) + this.#budgetUs });
    }
  }

  /**
   * Reports whether a known change may affect this call. Calls and marks of an unknown organization may belong to any.
   */
  touches(call: CallLine): boolean {
    for (const [org, spans] of this.#spans) {
      const mayBeIts = org === call.org || isUnnamed(org) || isUnnamed(call.org);
      if (mayBeIts && this.#reaches(spans, call)) return true;
    }
    return false;
  }

  /** The stage is so young that a change made just before it may not have arrived. */
  isYoung(call: CallLine): boolean {
    return earliestUs(call) < this.#startUs + this.#youthUs;
  }

  #reaches(spans: readonly Span[] | undefined, call: CallLine): boolean {
    return (spans ?? []).some(({ fromUs, untilUs }) => latestUs(call) >= fromUs && earliestUs(call) <= untilUs);
  }

  #add(org: string, span: Span): void {
    const spans = this.#spans.get(org) ?? [];
    this.#spans.set(org, spans);
    const last = spans.at(-1);
    // Overlapping changes are merged, which bounds the state.
    if (last !== undefined && span.fromUs <= last.untilUs) last.untilUs = Math.max(last.untilUs, span.untilUs);
    else spans.push(span);
  }
}

/**
 * Records may be as old as the revocation budget (item 142), and a change takes effect between request and confirmation.
 * Meanwhile a call may be answered by either state.
 */
import { type CallLine, type Line, lineTimeUs } from "../../history/line.ts";
import type { StageFacts } from "../../history/stage-facts.ts";
import { isUnnamed } from "./deployment.ts";
import { earliestUs, isAdmitted, isDefinite, latestUs, MARK_MARGIN_US } from "./moments.ts";

/** If the budget is not stated. */
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
    // A foreign deployment's credentials are older than the run.
    this.#youthUs = budgetMs === undefined ? 0 : this.#budgetUs;
  }

  /** Takes every line; counts an organization's marks and key changes. */
  see(line: Line): void {
    if (this.#startUs === Number.POSITIVE_INFINITY) this.#startUs = lineTimeUs(line);
    if (line.type === "mark" && line.org !== undefined) {
      this.#add(line.org, { fromUs: line.at_us - MARK_MARGIN_US, untilUs: line.at_us + this.#budgetUs });
    }
    if (line.type === "call" && mayChangeKeys(line)) {
      this.#add(line.org, { fromUs: earliestUs(line), untilUs: latestUs(line) + this.#budgetUs });
    }
  }

  /** Whether a known change may affect this call. Unknown organizations may be any. */
  touches(call: CallLine): boolean {
    for (const [org, spans] of this.#spans) {
      const mayBeIts = org === call.org || isUnnamed(org) || isUnnamed(call.org);
      if (mayBeIts && this.#reaches(spans, call)) return true;
    }
    return false;
  }

  /** Whether a change just before the stage may not have arrived yet. */
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
    // Merged, which bounds the state.
    if (last !== undefined && span.fromUs <= last.untilUs) last.untilUs = Math.max(last.untilUs, span.untilUs);
    else spans.push(span);
  }
}

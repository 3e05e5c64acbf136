/**
 * Key and organization records may be as old as the revocation budget (item 142), and a change takes effect somewhere
 * between being asked for and being confirmed. While one is on its way, a call may be answered by either state.
 */
import { type CallLine, type Line, lineTimeUs } from "../../history/line.ts";
import type { StageFacts } from "../../history/stage-facts.ts";
import { earliestUs, isAdmitted, isDefinite, latestUs, MARK_MARGIN_US } from "./moments.ts";
import { isUnnamed } from "./shared-deployment.ts";

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
    // Credentials of somebody else's deployment were made ready long before a run.
    this.#youthUs = budgetMs === undefined ? 0 : this.#budgetUs;
  }

  /** To hear of every line. Marks of an organization and changes of its keys count. */
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
   * Whether a change known so far may reach into this call. A caller whose credential is over belongs to no organization any
   * more, and that of a role may not be stated: either may be any one's.
   */
  touches(call: CallLine): boolean {
    for (const [org, spans] of this.#spans) {
      const mayBeIts = org === call.org || isUnnamed(org) || isUnnamed(call.org);
      if (mayBeIts && this.#reaches(spans, call)) return true;
    }
    return false;
  }

  /** Whether the stage is so young that a change made just before it may not have arrived. */
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
    // Changes that run into each other are one, so that their number stays small.
    if (last !== undefined && span.fromUs <= last.untilUs) last.untilUs = Math.max(last.untilUs, span.untilUs);
    else spans.push(span);
  }
}

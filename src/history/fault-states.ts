/** In which states a fault met the deployment, by the lines of a stage in time order and, at its end, the store's ledger. */
import { SHED_OUTCOMES } from "../contract/refusals.ts";
import type { CallLine, LedgerLine, Line } from "./line.ts";
import type { StageFacts } from "./stage-facts.ts";
import type { StateTimes } from "./states-reached.ts";

const HARD_STOP_FACTOR = 5;
/** Decided without a key record, or not known by what. */
const WITHOUT_RECORD = /^(503|401|429 b2b_overloaded|indeterminate|edge )/;

const monthOf = (atMs: number): string => new Date(atMs).toISOString().slice(0, 7);

/** Map loads of which one took the last that an organization had. `isIn`: whether a moment is one of a fault. */
const lastUnits = (ledger: readonly LedgerLine[], facts: StageFacts, isIn: (atMs: number) => boolean): number => {
  const first = monthOf(facts.started_at_ms ?? 0);
  const used = new Map<string, number>();
  let taken = 0;
  for (const { org, window, meter, kind, amount, at } of [...ledger].sort((one, other) => one.at - other.at)) {
    const { tier, allowance, used_at_start: before } = facts.tenants[org] ?? {};
    if (meter !== "map_loads" || allowance === undefined || before === undefined) continue;
    const cap = tier === "Pro" ? HARD_STOP_FACTOR * allowance : allowance;
    const month = `${org} ${window}`;
    const was = used.get(month) ?? (window === first ? before : 0);
    const is = was + (kind === "charge" ? amount : -amount);
    used.set(month, is);
    if (was < cap && is >= cap && isIn(at)) taken += 1;
  }
  return taken;
};

export class FaultStates {
  readonly #facts: Pick<StageFacts, "limits">;
  /** From asking for a fault to its being away. */
  readonly #spans: { fromUs: number; toUs: number }[] = [];
  /** By how much the store's clock is ahead, where it was moved. */
  #clockOffsetMs = 0;
  /** Streams that may still be open, by the end of each. */
  #streams: CallLine[] = [];
  /** When a call by this key last needed its record and had it. */
  readonly #usedUs = new Map<string, number>();
  readonly #times = { "streams-open": 0, "cold-keys": 0, shedding: 0 };

  /** `facts`: what is known before the stage. */
  constructor(facts: Pick<StageFacts, "limits">) {
    this.#facts = facts;
  }

  get #isIn(): boolean {
    return this.#spans.at(-1)?.toUs === Number.POSITIVE_INFINITY;
  }

  see(line: Line): void {
    if (line.type === "mark") this.#clockOffsetMs = line.clock_offset_ms ?? this.#clockOffsetMs;
    if (line.type === "fault") this.#seeFault(line.phase, line.at_us);
    if (line.type === "call") this.#seeCall(line);
  }

  #seeFault(phase: string, atUs: number): void {
    if (phase === "injecting" && !this.#isIn) {
      this.#spans.push({ fromUs: atUs, toUs: Number.POSITIVE_INFINITY });
      this.#streams = this.#streams.filter(({ done_us: doneUs }) => doneUs >= atUs);
      this.#times["streams-open"] += this.#streams.filter(({ first_us: firstUs }) => (firstUs ?? atUs) < atUs).length;
    }
    const last = this.#spans.at(-1);
    if (phase === "healed" && last !== undefined && this.#isIn) last.toUs = atUs;
  }

  #seeCall(call: CallLine): void {
    const { bucket, outcome, sent_us: sentUs, done_us: doneUs } = call;
    if ((call.events ?? 0) > 0 && call.first_us !== null) {
      this.#streams = [...this.#streams.filter((one) => one.done_us >= sentUs), call];
    }
    const budgetMs = this.#facts.limits.revocation_budget_ms;
    if (bucket !== undefined && budgetMs !== undefined) {
      const usedUs = this.#usedUs.get(bucket) ?? Number.NEGATIVE_INFINITY;
      if (this.#isIn && sentUs - usedUs > budgetMs * 1_000) this.#times["cold-keys"] += 1;
      if (!WITHOUT_RECORD.test(outcome)) this.#usedUs.set(bucket, Math.max(usedUs, doneUs));
    }
    if (this.#isIn && SHED_OUTCOMES.has(outcome)) this.#times.shedding += 1;
  }

  /** `facts`: with the witnesses that were read after the stage. */
  times(facts: StageFacts): StateTimes {
    const { ledger, started_at_ms: startedMs, limits } = facts;
    const coldKeys = limits.revocation_budget_ms === undefined ? null : this.#times["cold-keys"];
    const unknown = { "last-unit": null, "refund-under-way": null, "month-edge": null };
    const lines = { ...this.#times, "cold-keys": coldKeys, ...unknown };
    if (ledger === undefined || startedMs === undefined) return lines;
    const isAt = (atMs: number): boolean =>
      this.#spans.some(({ fromUs, toUs }) => atMs >= startedMs + fromUs / 1_000 && atMs <= startedMs + toUs / 1_000);
    const isIn = (atMs: number): boolean => isAt(atMs) || isAt(atMs - this.#clockOffsetMs);
    const charged = new Set(ledger.filter(({ kind, at }) => kind === "charge" && isIn(at)).map((one) => one.charge_id));
    const refunds = ledger.filter(({ kind, charge_id: id }) => kind === "refund" && charged.has(id));
    return {
      ...lines,
      "last-unit": lastUnits(ledger, facts, isIn),
      "refund-under-way": refunds.length,
      "month-edge": refunds.filter(({ at, window }) => monthOf(at) > window).length,
    };
  }
}

/** In which states a fault met the deployment, by the lines of a stage in time order and, at its end, the store's ledger. */
import { SHED_OUTCOMES } from "../contract/refusals.ts";
import type { CallLine, FaultLine, LedgerLine, Line } from "./line.ts";
import type { Limits, StageFacts } from "./stage-facts.ts";
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

/** A fold: `see` the lines of a stage, whose limits are known before it; `times` with the facts that were read after it. */
export const faultStates = ({ revocation_budget_ms: budgetMs }: Limits) => {
  /** From asking for a fault to its being away; the last one may still be in. */
  const spans: { fromUs: number; toUs: number }[] = [];
  const isFaultIn = (): boolean => spans.at(-1)?.toUs === Number.POSITIVE_INFINITY;
  /** By how much the store's clock is ahead, where it was moved. */
  let clockOffsetMs = 0;
  /** Streams that may still be open. */
  let streams: CallLine[] = [];
  /** When a call by this key last needed its record and had it. */
  const usedUs = new Map<string, number>();
  const counts = { "streams-open": 0, "cold-keys": 0, shedding: 0 };

  const seeFault = ({ phase, at_us: atUs }: FaultLine): void => {
    if (phase === "injecting" && !isFaultIn()) {
      spans.push({ fromUs: atUs, toUs: Number.POSITIVE_INFINITY });
      streams = streams.filter(({ done_us: doneUs }) => doneUs >= atUs);
      counts["streams-open"] += streams.filter(({ first_us: firstUs }) => (firstUs ?? atUs) < atUs).length;
    }
    const last = spans.at(-1);
    if (phase === "healed" && last !== undefined && isFaultIn()) last.toUs = atUs;
  };

  const seeCall = (call: CallLine): void => {
    const { bucket, outcome, sent_us: sentUs, done_us: doneUs } = call;
    if ((call.events ?? 0) > 0 && call.first_us !== null) {
      streams = [...streams.filter((one) => one.done_us >= sentUs), call];
    }
    if (bucket !== undefined && budgetMs !== undefined) {
      const before = usedUs.get(bucket) ?? Number.NEGATIVE_INFINITY;
      if (isFaultIn() && sentUs - before > budgetMs * 1_000) counts["cold-keys"] += 1;
      if (!WITHOUT_RECORD.test(outcome)) usedUs.set(bucket, Math.max(before, doneUs));
    }
    if (isFaultIn() && SHED_OUTCOMES.has(outcome)) counts.shedding += 1;
  };

  return {
    see: (line: Line): void => {
      if (line.type === "mark") clockOffsetMs = line.clock_offset_ms ?? clockOffsetMs;
      if (line.type === "fault") seeFault(line);
      if (line.type === "call") seeCall(line);
    },
    times: (facts: StageFacts): StateTimes => {
      const { ledger, started_at_ms: startedMs } = facts;
      const unknown = { "last-unit": null, "refund-under-way": null, "month-edge": null };
      const lines = { ...counts, "cold-keys": budgetMs === undefined ? null : counts["cold-keys"], ...unknown };
      if (ledger === undefined || startedMs === undefined) return lines;
      const isAt = (atMs: number): boolean =>
        spans.some(({ fromUs, toUs }) => atMs >= startedMs + fromUs / 1_000 && atMs <= startedMs + toUs / 1_000);
      const isIn = (atMs: number): boolean => isAt(atMs) || isAt(atMs - clockOffsetMs);
      const charges = ledger.filter(({ kind, at }) => kind === "charge" && isIn(at));
      const charged = new Set(charges.map(({ charge_id: id }) => id));
      const refunds = ledger.filter(({ kind, charge_id: id }) => kind === "refund" && charged.has(id));
      return {
        ...lines,
        "last-unit": lastUnits(ledger, facts, isIn),
        "refund-under-way": refunds.length,
        "month-edge": refunds.filter(({ at, window }) => monthOf(at) > window).length,
      };
    },
  };
};

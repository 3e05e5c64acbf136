/** Counts the states in which faults met a deployment, from a stage's lines in time order and its ledger. */

import { HARD_STOP_FACTOR, SHED_OUTCOMES } from "../contract/refusals.ts";
import type { LedgerLine } from "../contract/routes.ts";
import type { CallLine, FaultLine, Line } from "./line.ts";
import { FAULT_STATES, type FaultState, type Limits, type StageFacts, type StateReached } from "./run-document.ts";

/** Outcomes that may have been decided without a key record. */
const WITHOUT_RECORD = /^(503|401|429 b2b_overloaded|indeterminate|edge )/;

const monthOf = (atMs: number): string => new Date(atMs).toISOString().slice(0, 7);

/** Counts the map loads that took an organization's last unit during a fault. `isIn` reports whether a moment lies in one. */
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

type StateTimes = Record<FaultState, number | null>;

export const statesReached = (times: StateTimes, must: readonly FaultState[]): StateReached[] =>
  FAULT_STATES.map((state) => ({ state, must: must.includes(state), times: times[state] }));

/** A fold: `see` takes the lines of a stage, `times` the facts that were read after it. */
export const faultStates = ({ revocation_budget_ms: budgetMs }: Limits) => {
  /** From the request for a fault until it is healed; the last fault may still be in effect. */
  const spans: { fromUs: number; toUs: number }[] = [];
  const isFaultIn = (): boolean => spans.at(-1)?.toUs === Number.POSITIVE_INFINITY;
  /** How far the store's clock was moved ahead. */
  let clockOffsetMs = 0;
  /** Streams that may still be open. */
  let streams: CallLine[] = [];
  /** By key: when a call was last decided with the key's record. */
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
      const { ledger, started_at_ms: startedMs, clock_set_ms: setMs = 0 } = facts;
      const unknown = { "last-unit": null, "refund-under-way": null, "month-edge": null };
      const lines = { ...counts, "cold-keys": budgetMs === undefined ? null : counts["cold-keys"], ...unknown };
      if (ledger === undefined || startedMs === undefined) return lines;
      const isAt = (atMs: number): boolean =>
        spans.some(({ fromUs, toUs }) => atMs >= startedMs + fromUs / 1_000 && atMs <= startedMs + toUs / 1_000);
      const isIn = (atMs: number): boolean => [0, clockOffsetMs, setMs].some((by) => isAt(atMs - by));
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

/**
 * What a take and a refund mean (spec-checklist.md B4; design.md, "Charges"), over any tables. Rate first, then meter; the
 * first that fails decides and takes nothing. A charge happens once for each `charge_id`, and a refund undoes it for good,
 * in the month that it was charged to, also when it comes before the charge.
 *
 * Only charges are remembered by id: a repeat of a refused take is decided afresh, which takes no more than its answer says.
 */
import { fits, windowOf } from "../../core/meters.ts";
import { takeRate } from "../../core/rate-limit.ts";
import type { Instant } from "../clock.ts";
import type { Refund, Take } from "../limiter.ts";
import type { MeterTables } from "./meter-tables.ts";
import { type RateBuckets, rateBuckets } from "./rate-buckets.ts";
import type { LimiterStore, StoreAnswer } from "./store.ts";

/** The pure decisions that a store is made of. */
export type LimiterDecisions = { takeRate: typeof takeRate; fits: typeof fits; windowOf: typeof windowOf };
export const LIMITER_DECISIONS: LimiterDecisions = { takeRate, fits, windowOf };

const PAGE_LINES = 500;

export const tableStore = (
  tables: MeterTables,
  decisions: LimiterDecisions = LIMITER_DECISIONS,
  buckets: RateBuckets = rateBuckets(),
): LimiterStore => {
  /** Rate tokens of the batch under way; they count in it, and are kept only when the batch is stored. */
  let taken = new Map<string, number>();

  const takeOne = (take: Take, at: Instant): StoreAnswer => {
    const { rate, meter } = take;
    if (meter !== null) {
      const known = tables.charge(take.charge_id);
      if (known?.refunded === true) return { verdict: "refunded" };
      if (known !== undefined) return { verdict: "taken", used: known.used, window: known.window };
    }
    const rated =
      rate === null ? null : decisions.takeRate(taken.get(take.key) ?? buckets.tatMs(take.key), at.steadyMs, rate);
    if (rated !== null && !rated.allowed) return { verdict: "rate_limited", wait_ms: rated.waitMs };
    const window = decisions.windowOf(at.nowMs);
    let used: number | null = null;
    if (meter !== null) {
      const before = tables.used(take.org, meter.name, window);
      if (!decisions.fits(before, meter.amount, meter.cap)) return { verdict: "over_cap", used: before, window };
      used = before + meter.amount;
      const { org, key } = take;
      tables.putUsed(org, meter.name, window, used);
      tables.putCharge(take.charge_id, {
        org,
        key,
        meter: meter.name,
        amount: meter.amount,
        window,
        used,
        refunded: false,
      });
      tables.append({
        charge_id: take.charge_id,
        request_id: take.request_id,
        org,
        key,
        meter: meter.name,
        kind: "charge",
        amount: meter.amount,
        window,
        at: at.nowMs,
      });
    }
    if (rated !== null) taken.set(take.key, rated.tatMs);
    return { verdict: "taken", used, window };
  };

  const refundOne = (refund: Refund, at: Instant): void => {
    const known = tables.charge(refund.charge_id);
    if (known?.refunded === true) return;
    if (known === undefined) {
      const { org, key, meter } = refund;
      const window = decisions.windowOf(at.nowMs);
      tables.putCharge(refund.charge_id, { org, key, meter, amount: 0, window, used: 0, refunded: true });
      return;
    }
    const { org, key, meter, amount, window } = known;
    tables.markRefunded(refund.charge_id);
    // An operator may have set the meter lower since.
    tables.putUsed(org, meter, window, Math.max(0, tables.used(org, meter, window) - amount));
    tables.append({
      charge_id: refund.charge_id,
      request_id: refund.request_id,
      org,
      key,
      meter,
      kind: "refund",
      amount,
      window,
      at: at.nowMs,
    });
  };

  return {
    take: (takes, at) => {
      taken = new Map();
      const metered = takes.some(({ meter }) => meter !== null);
      const decide = (): StoreAnswer[] => takes.map((take) => takeOne(take, at));
      const answers = metered ? tables.transaction(decide) : decide();
      for (const [key, tatMs] of taken) buckets.set(key, tatMs, at.steadyMs);
      return answers;
    },
    refund: (refunds, at) =>
      tables.transaction(() => {
        for (const refund of refunds) refundOne(refund, at);
      }),
    used: (org, meter, at) => tables.used(org, meter, decisions.windowOf(at.nowMs)),
    setUsed: (org, meter, used, at) =>
      tables.transaction(() => tables.putUsed(org, meter, decisions.windowOf(at.nowMs), used)),
    ledger: function* (run) {
      const upTo = tables.lastLine();
      let after = 0;
      for (;;) {
        const page = tables.lines(after, upTo, PAGE_LINES);
        for (const { line } of page) if (line.request_id.startsWith(run)) yield line;
        const last = page.at(-1);
        if (last === undefined) return;
        after = last.number;
      }
    },
    dropBefore: (window) => tables.dropBefore(window),
    close: () => tables.close(),
  };
};

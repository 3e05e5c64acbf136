/**
 * No load above the allowance is admitted or charged (items 79, 204-206, 225, 227, 234; A8). Calls of unknown outcome are not
 * counted. Other callers only use the allowance up, so the bound holds beside them; their loads may have been refunded, so on a
 * shared deployment, or if the earlier use is unknown, the whole allowance is the bound.
 */
import type { CallLine, LedgerLine } from "../history/line.ts";
import { Allowances, capsOf, type Use } from "./evidence/allowance.ts";
import { Charges } from "./evidence/charges.ts";
import { isReference, skippedWhenShared } from "./evidence/deployment.ts";
import { Evidence, type Found, failed, type Invariant, inconclusive, passed, skipped, unseen } from "./invariant.ts";

/** Charges less refunds of map loads, by organization and month. */
const ledgerSums = (ledger: readonly LedgerLine[]): Map<string, Map<string, number>> => {
  const sums = new Map<string, Map<string, number>>();
  for (const { org, window, meter, kind, amount } of ledger) {
    if (meter !== "map_loads") continue;
    const months = sums.get(org) ?? new Map<string, number>();
    sums.set(org, months);
    months.set(window, (months.get(window) ?? 0) + (kind === "charge" ? amount : -amount));
  }
  return sums;
};

export const admitsAtMostTheAllowance: Invariant = {
  id: "admits-at-most-the-allowance",
  level: "must",
  spec: [10, 79, 184, 204, 205, 206, 225, 227, 234],
  statement: "in a month an organization gets at most its allowance of map loads, a paid one five times it",
  judge(facts) {
    const evidence = new Evidence();
    const { exclusive, tenants } = facts;
    /** By the target file, or by what refusals reported. */
    const usedBefore = new Map<string, number>();
    for (const [org, { used_at_start: used }] of Object.entries(tenants)) {
      if (exclusive && used !== undefined) usedBefore.set(org, used);
    }
    const judgeQuotaFields = (refusal: CallLine, use: Use): void => {
      const { limit, used } = refusal.quota ?? {};
      const tenant = facts.tenants[refusal.org];
      const caps = capsOf(facts, refusal.org, use.tierMoved);
      if (typeof limit === "number" && tenant?.allowance !== undefined && limit !== tenant.allowance) {
        evidence.breach(refusal.id, `the refusal reports a limit of ${limit}; the allowance is ${tenant.allowance}`);
      }
      if (typeof used === "number" && caps !== null && used > caps.most) {
        evidence.breach(refusal.id, `the refusal reports ${used} used; no more than ${caps.most} may ever be`);
      }
    };
    const allowances = new Allowances(facts, (refusal, use, month, possible) => {
      const used = refusal.quota?.used;
      if (exclusive && month === 0 && typeof used === "number") {
        usedBefore.set(refusal.org, Math.max(usedBefore.get(refusal.org) ?? 0, used - possible));
      }
      judgeQuotaFields(refusal, use);
    });
    const last = new Map<string, string>();
    const charges = new Charges(facts, true);
    /** The finding when no organization is known to have reached its allowance. */
    const unreached = (): Found => {
      const limited = Object.entries(tenants).filter(([, { allowance }]) => allowance !== undefined);
      if (limited.length === 0) return skipped("an organization whose allowance (limit) is stated");
      if (!exclusive) {
        return skippedWhenShared("others may have used a part of an allowance, so where it ends is not known");
      }
      if (!limited.some(([org]) => usedBefore.has(org))) {
        return skipped("what an organization had used before the stage (control.keys)");
      }
      return unseen("no organization whose use is known came to its allowance");
    };
    const judgeLedger = (): void => {
      // Other callers' charges may precede the stage.
      const lines = (facts.ledger ?? []).filter(({ request_id }) => exclusive || charges.isOfCall(request_id));
      for (const [org, months] of ledgerSums(lines)) {
        const caps = capsOf(facts, org, allowances.use(org).tierMoved);
        // If the stage crosses a month's edge, the month of the earlier use is unknown.
        const crossed = months.size > 1 || [...allowances.use(org).months.keys()].some((number) => number > 0);
        const before = crossed || !exclusive ? 0 : (tenants[org]?.used_at_start ?? 0);
        for (const [window, net] of months) {
          if (caps === null || before + net <= caps.most) continue;
          const got = `the ledger has ${net} map loads of ${org} in ${window} on top of ${before}; the cap is ${caps.most}`;
          evidence.breach(last.get(org) ?? org, got);
        }
      }
    };
    return {
      see(line) {
        allowances.see(line);
        if (line.type === "call") charges.see(line);
        if (line.type === "call" && line.outcome === "200") last.set(line.org, line.id);
      },
      end() {
        allowances.finish();
        judgeLedger();
        let reached = 0;
        let uncounted = "";
        for (const [org, use] of allowances.uses) {
          const caps = capsOf(facts, org, use.tierMoved);
          if (caps === null) continue;
          for (const [number, { certain, mints, refused }] of use.months) {
            const before = number === 0 ? usedBefore.get(org) : exclusive ? 0 : undefined;
            const got = `${org} got ${certain} map loads on top of ${before ?? 0}; its cap is ${caps.most}`;
            if ((before ?? 0) + certain > caps.most) {
              // A9: a deployment that does not count mints does not refuse them either.
              const mayNotCount = !isReference(facts) && refused === 0 && (before ?? 0) + certain - mints <= caps.most;
              if (mayNotCount) uncounted ||= got;
              else evidence.breach(last.get(org) ?? org, got);
            } else if (certain >= caps.least) reached += 1;
            else if (before !== undefined && (refused > 0 || before + certain >= caps.least)) reached += 1;
          }
        }
        if (evidence.count > 0) return failed("more map loads were admitted than the allowance", evidence);
        if (uncounted !== "") {
          const why = "either the allowance is not enforced, or tile sessions are not counted as map loads here (A9)";
          return inconclusive(why, uncounted);
        }
        if (reached > 0) return passed(`${reached} organizations came to their allowance and got no more`);
        return unreached();
      },
    };
  },
};

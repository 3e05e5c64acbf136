/**
 * After a lost reply of the limiter, the platform asks again and refunds by id; done wrongly, a load is charged or refunded twice
 * (items 222, 234). In the ledger each charge and refund must occur once, a refund must match its charge, and a call must be
 * charged at most once. On a shared deployment only our own calls' entries are judged.
 */
import type { LedgerLine } from "../history/line.ts";
import { Charges, unsettled } from "./evidence/charges.ts";
import { isReference } from "./evidence/deployment.ts";
import { Evidence, failed, type Invariant, passed, skipped, unseen } from "./invariant.ts";

type Entry = { charges: LedgerLine[]; refunds: LedgerLine[] };

/** What is wrong with the entries of one charge id, in any order; `null` for nothing. */
const entryFault = ({ charges, refunds }: Entry): string | null => {
  const [charge] = charges;
  const [refund] = refunds;
  if (charges.length > 1) return "charged twice under one charge id";
  if (refunds.length > 1) return "refunded twice";
  if (refund === undefined) return null;
  if (charge === undefined) return "refunded without a charge";
  for (const field of ["org", "meter", "window", "amount", "request_id"] as const) {
    if (refund[field] !== charge[field])
      return `${field} of the refund is ${refund[field]}, of the charge ${charge[field]}`;
  }
  return null;
};

export const chargedOnce: Invariant = {
  id: "charged-once",
  level: "must",
  folded: true,
  spec: [87, 222, 234],
  statement: "each charge is made once and refunded at most once, and each call is charged at most once",
  judge(facts) {
    const { ledger, exclusive, drained } = facts;
    if (ledger === undefined) return skipped("a ledger (control.limiter, or observers.ledger)");
    const evidence = new Evidence();
    const entries = new Map<string, Entry>();
    for (const line of ledger) {
      const entry = entries.get(line.charge_id) ?? { charges: [], refunds: [] };
      entries.set(line.charge_id, entry);
      (line.kind === "charge" ? entry.charges : entry.refunds).push(line);
    }
    const charges = new Charges(facts, true);
    let folded = 0;
    const isOurs = ({ charges: lines, refunds }: Entry): boolean =>
      exclusive || [...lines, ...refunds].some(({ request_id }) => charges.isOfCall(request_id));
    return {
      see(line, alike) {
        if (alike !== undefined) folded += alike;
        else if (line.type === "call") charges.see(line);
      },
      end() {
        let judged = 0;
        for (const [id, entry] of entries) {
          if (!isOurs(entry)) continue;
          judged += 1;
          const fault = entryFault(entry);
          if (fault !== null) evidence.breach(id, fault);
        }
        for (const [id, { net, seen }] of charges.byRequest) {
          if (seen === 0 && !exclusive) continue;
          // An id unknown to the history stands for at least one call.
          const calls = Math.max(1, seen);
          for (const [meter, sum] of net) {
            if (sum > calls) evidence.breach(id, `${calls} calls under this id are charged ${sum} ${meter}`);
          }
        }
        if (evidence.count > 0 && !drained && !isReference(facts)) return unsettled(evidence);
        if (evidence.count > 0) return failed("something was charged or refunded more than once", evidence);
        if (folded > 0 && !exclusive) {
          return skipped(`every call whole; ${folded} calls were folded without their ids on a shared deployment`);
        }
        if (judged === 0 && entries.size > 0) return skipped("a ledger that names the ids of our calls");
        if (judged === 0) return unseen("nothing was charged in this stage");
        return passed(`${judged} charges were made once, and refunded at most once`);
      },
    };
  },
};

/**
 * When the limiter's reply is lost, the platform asks again and gives back by id; done wrongly, one load is charged twice
 * or given back twice (items 222, 234; design.md "Charges"). Read from the store's ledger: each charge and each refund
 * stands there once, a refund after its charge and equal to it, and a call is charged no more often than it was made.
 */
import type { LedgerLine } from "../history/line.ts";
import { Charges } from "./charges.ts";
import { Evidence, failed, type Invariant, inconclusive, knownBeforehand, passed, skipped } from "./invariant.ts";

const EXPECTED = "each charge is made once and refunded at most once, and each call is charged at most once";

type Entry = { charge: LedgerLine | null; refunded: boolean };

/** What is wrong with the next line of a charge, given what came before; `null` when nothing is. */
const entryFault = (entry: Entry, line: LedgerLine): string | null => {
  const { charge, refunded } = entry;
  if (line.kind === "charge") {
    entry.charge ??= line;
    return charge === null ? null : "charged twice under one charge id";
  }
  entry.refunded = true;
  if (charge === null) return "refunded without a charge before it";
  if (refunded) return "refunded twice";
  for (const field of ["org", "meter", "window", "amount", "request_id"] as const) {
    if (line[field] !== charge[field])
      return `${field} of the refund is ${line[field]}, of the charge ${charge[field]}`;
  }
  return null;
};

export const chargedOnce: Invariant = {
  id: "charged-once",
  level: "must",
  spec: [87, 222, 234],
  statement: EXPECTED,
  judge({ ledger }) {
    if (ledger === undefined)
      return knownBeforehand(skipped("a ledger (control.limiter, or observers.ledger)", EXPECTED));
    const evidence = new Evidence();
    const entries = new Map<string, Entry>();
    for (const line of ledger) {
      const entry = entries.get(line.charge_id) ?? { charge: null, refunded: false };
      entries.set(line.charge_id, entry);
      const fault = entryFault(entry, line);
      if (fault !== null) evidence.breach(line.charge_id, fault);
    }
    const charges = new Charges(ledger, true);
    return {
      see(line) {
        if (line.type === "call") charges.see(line);
      },
      end() {
        for (const [id, { net, seen }] of charges.byRequest) {
          // An id that the history has not is one call at least.
          const calls = Math.max(1, seen);
          for (const [meter, sum] of net) {
            if (sum > calls) evidence.breach(id, `${calls} calls under this id are charged ${sum} ${meter}`);
          }
        }
        if (evidence.count > 0) return failed("something was charged or refunded more than once", EXPECTED, evidence);
        if (entries.size === 0) return inconclusive("nothing was charged in this stage", EXPECTED);
        return passed(`${entries.size} charges were made once, and refunded at most once`, EXPECTED);
      },
    };
  },
};

/** Meters in memory: gone with the process. For tests and for a platform whose counts nobody needs afterwards. */
import type { LedgerLine } from "../../core/ledger.ts";
import type { Charge, MeterTables } from "./meter-tables.ts";

export const memoryTables = (): MeterTables => {
  const charges = new Map<string, Charge>();
  const meters = new Map<string, Map<string, number>>();
  let ledger: { number: number; line: LedgerLine }[] = [];
  let newest = 0;
  const nameOf = (org: string, meter: string): string => `${meter}\n${org}`;
  return {
    // Nothing in here can fail halfway.
    transaction: (work) => work(),
    charge: (id) => charges.get(id),
    putCharge: (id, charge) => {
      charges.set(id, charge);
    },
    markRefunded: (id) => {
      const charge = charges.get(id);
      if (charge !== undefined) charges.set(id, { ...charge, refunded: true });
    },
    used: (org, meter, window) => meters.get(window)?.get(nameOf(org, meter)) ?? 0,
    putUsed: (org, meter, window, used) => {
      const month = meters.get(window) ?? new Map<string, number>();
      meters.set(window, month.set(nameOf(org, meter), used));
    },
    append: (line) => {
      newest += 1;
      ledger.push({ number: newest, line });
    },
    lastLine: () => newest,
    lines: (after, upTo, limit) => {
      // Numbers have no gap until months are dropped from the front, so the place of a number is known.
      const first = ledger[0]?.number ?? 0;
      let at = Math.min(ledger.length, Math.max(0, after + 1 - first));
      while (at > 0 && (ledger[at - 1]?.number ?? 0) > after) at -= 1;
      const page = ledger.slice(at, at + limit);
      return page.filter(({ number }) => number > after && number <= upTo);
    },
    dropBefore: (window) => {
      for (const month of meters.keys()) if (month < window) meters.delete(month);
      for (const [id, charge] of charges) if (charge.window < window) charges.delete(id);
      ledger = ledger.filter(({ line }) => line.window >= window);
    },
    close: () => {},
  };
};

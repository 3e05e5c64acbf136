/** One line of the ledger: what the store says was charged (`GET /ledger`). */
import type { Meter } from "../contract/routes.ts";

export type LedgerLine = {
  charge_id: string;
  request_id: string;
  org: string;
  key: string;
  meter: Meter;
  kind: "charge" | "refund";
  amount: number;
  /** `YYYY-MM`, UTC. */
  window: string;
  /** Milliseconds since 1970, by the store's clock. */
  at: number;
};

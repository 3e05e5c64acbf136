/** The tables that meters live in; what they mean is said once, in `table-store.ts`, for memory and SQLite alike. */
import type { Meter } from "../../contract/routes.ts";
import type { LedgerLine } from "../../core/ledger.ts";

/** One charge by its id. A refund of a charge that never arrived leaves one with `amount` 0: its tombstone. */
export type Charge = {
  org: string;
  key: string;
  meter: Meter;
  amount: number;
  window: string;
  /** What the meter stood at afterwards, to answer a repeat with. */
  used: number;
  refunded: boolean;
};

export type MeterTables = {
  /** All or nothing. */
  transaction<T>(work: () => T): T;
  charge(id: string): Charge | undefined;
  putCharge(id: string, charge: Charge): void;
  markRefunded(id: string): void;
  used(org: string, meter: Meter, window: string): number;
  putUsed(org: string, meter: Meter, window: string, used: number): void;
  append(line: LedgerLine): void;
  /** The number of the newest ledger line. */
  lastLine(): number;
  /** Up to `limit` lines numbered in `(after, upTo]`, oldest first. */
  lines(after: number, upTo: number, limit: number): { number: number; line: LedgerLine }[];
  dropBefore(window: string): void;
  close(): void;
};

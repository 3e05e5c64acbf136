/**
 * The port behind the limiter service: where counts are kept. It works in batches, each decided in order and stored as one
 * transaction. The healthy stores are synchronous; a promise is allowed so that a store can be wrapped from outside.
 */
import type { Meter } from "../../contract/routes.ts";
import type { LedgerLine } from "../../core/ledger.ts";
import type { Instant } from "../clock.ts";
import type { Refund, Take, TakeAnswer } from "../limiter.ts";

/** `refunded`: the charge was undone before it arrived; nothing was taken and the call must not be admitted. */
export type StoreAnswer = TakeAnswer | { verdict: "refunded" };

export type LimiterStore = {
  /** When it returns, every charge of the batch is stored; when it throws, none is. */
  take(takes: readonly Take[], at: Instant): StoreAnswer[] | Promise<StoreAnswer[]>;
  /** When it returns, every refund is stored, also of a charge that has not arrived. */
  refund(refunds: readonly Refund[], at: Instant): void | Promise<void>;
  used(org: string, meter: Meter, at: Instant): number;
  setUsed(org: string, meter: Meter, used: number, at: Instant): void;
  /** Oldest first, read page by page, up to what was there when it was asked. `run` is a prefix of the request id. */
  ledger(run: string): Iterable<LedgerLine>;
  /**
   * Forgets meters, charges, tombstones and ledger lines of months before `window` (`YYYY-MM`). The service keeps the
   * current and the previous month of the real clock, so that shifting the deployment's clock never loses a ledger.
   */
  dropBefore(window: string): void;
  close(): void;
};

/** The port to the limiter: one atomic decision per call, refunds by charge id, and the ledger. */
import type { Meter } from "../contract/routes.ts";
import type { MeterTake, TakeOutcome } from "../core/call.ts";
import type { LedgerLine } from "../core/meters.ts";
import type { Rate } from "../core/rate-limit.ts";

export type Take = {
  /** Fresh for each incoming call, made by the API; idempotency and refunds use this and nothing that a client sent. */
  charge_id: string;
  /** The client's `X-Request-Id` or a made-up one; for correlation in the ledger only. */
  request_id: string;
  org: string;
  key: string;
  /** The bucket is the key's; `null` takes no rate token. */
  rate: Rate | null;
  meter: MeterTake | null;
};

/** Undoes a charge for good: once confirmed, neither the charge nor a late arrival of it counts any more. */
export type Refund = Pick<Take, "charge_id" | "request_id" | "org" | "key"> & { meter: Meter; amount: number };

/** No valid answer within the budget, or refunded before it arrived: the call is refused, and the charge undone. */
export class LimiterUnavailable extends Error {
  override name = "LimiterUnavailable";
}

/**
 * At its budget `take` or `refund` rejects with `LimiterUnavailable`, and may have happened. A take with a meter is
 * idempotent by its `charge_id`: a repeat gets the answer of the charge.
 */
export type Limiter = {
  take(take: Take, budgetMs: number): Promise<TakeOutcome>;
  /** Idempotent; resolves only when the store has confirmed. */
  refund(refund: Refund, budgetMs: number): Promise<void>;
  used(org: string, meter: Meter): Promise<number>;
  /** Sets what counts as used in the current window; for operators and fixtures, writes no ledger line. */
  setUsed(org: string, meter: Meter, used: number): Promise<void>;
  close(): Promise<void>;
};

/** A limiter in this process, or Redis: what the service offers its operator on the control plane. */
export type OperableLimiter = Limiter & {
  /** Charges and refunds whose request id starts with the run's prefix (all, for ""), oldest first. */
  ledger(run: string): AsyncIterable<LedgerLine>;
  /** Shifts the limiter's clock (`PATCH /deployment`), so that a month's edge can be met on purpose. */
  setClockOffset(offsetMs: number): Promise<void>;
};

/**
 * The port to the limiter: one atomic decision per call (rate first, then meter; the first that fails decides and takes
 * nothing), refunds by charge id, and the ledger. Two implementations, our limiter service and Redis, are judged by one
 * suite (`limiter.fixture.ts`).
 */
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

/**
 * No valid answer within the budget. A take may have happened all the same, so its caller refuses the call and refunds it.
 * Also the answer to the take of a charge that was refunded before it arrived: it was not charged and must not be admitted.
 */
export class LimiterUnavailable extends Error {
  override name = "LimiterUnavailable";
}

/**
 * `take` and `refund` reject with `LimiterUnavailable` when no valid answer came in time; the caller then does not know
 * whether they happened. Budgets are the caller's: an implementation is given the deadline and rejects at it. A take with
 * a meter is idempotent by its `charge_id`: a repeat gets the answer of the charge and is not charged again.
 */
export type Limiter = {
  take(take: Take, budgetMs: number): Promise<TakeOutcome>;
  /** Idempotent; resolves only when the store has confirmed. */
  refund(refund: Refund, budgetMs: number): Promise<void>;
  /** Used in the current window. */
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

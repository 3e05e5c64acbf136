/** The port to the limiter: one atomic decision per call, refunds by charge id, and the ledger. */
import { type Static, type TSchema, Type } from "typebox";
import type { Meter } from "../contract/routes.ts";
import type { TakeOutcome } from "../core/call.ts";
import type { LedgerLine } from "../core/meters.ts";

const orNull = <S extends TSchema>(schema: S) => Type.Union([Type.Null(), schema]);
export const METER = Type.Enum(["map_loads", "design_analyses"]);
const Amount = Type.Integer({ minimum: 1 });

const CHARGE = {
  /** The API makes a fresh id for each call; idempotency and refunds use this id and nothing that a client sent. */
  charge_id: Type.String(),
  /** The client's `X-Request-Id` or a generated one; for correlation in the ledger only. */
  request_id: Type.String(),
  org: Type.String(),
  key: Type.String(),
};

export const TAKE = Type.Object({
  ...CHARGE,
  /** Each key has one bucket. `null` takes no rate token. */
  rate: orNull(Type.Object({ perS: Type.Number({ exclusiveMinimum: 0 }), burst: Type.Number({ minimum: 1 }) })),
  meter: orNull(Type.Object({ name: METER, amount: Amount, cap: orNull(Type.Integer({ minimum: 0 })) })),
});
export type Take = Static<typeof TAKE>;

/** Undoes a charge for good: once confirmed, neither the charge nor a late arrival of it counts any more. */
export const REFUND = Type.Object({ ...CHARGE, meter: METER, amount: Amount });
export type Refund = Static<typeof REFUND>;

/**
 * When its budget is over, `take` or `refund` rejects with `Unavailable`, and may have happened. A take with a meter is
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

/** A limiter (in this process, or Redis) with what the control plane offers to operators. */
export type OperableLimiter = Limiter & {
  /** Charges and refunds whose request id begins with `run` (all for ""), oldest first. */
  ledger(run: string): AsyncIterable<LedgerLine>;
  /** Shifts the limiter's clock (`PATCH /deployment`), so that the end of a month can be tested. */
  setClockOffset(offsetMs: number): Promise<void>;
};

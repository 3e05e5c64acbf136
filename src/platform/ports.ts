/** The key service and the limiter as the API sees them: what is asked, what is answered, and the clients of both services. */
import { type Static, type TSchema, Type } from "typebox";
import { Compile } from "typebox/schema";
import { REFUSALS, type RefusalName } from "../contract/refusals.ts";
import type { LedgerLine, Meter } from "../contract/routes.ts";
import { type ChangedKey, KEY_RECORD, type KeySnapshot, ORGANIZATION, type TakeOutcome } from "../core/call.ts";
import { KEY_CREATION, KEY_UPDATE, type ManagementRefusal } from "../core/management.ts";
import { openLink } from "./links/batch.ts";
import type { Network } from "./links/http-service.ts";

// The key service as the API sees it: lookups, and key management, which the key service decides. Messages have
// schemas; the answer to a lookup names its question, so that the answer to another question is detected.

const Text = Type.String();

/** By the SHA-256 of the secret, hex: a secret itself is neither stored nor sent. By id: a session names its key. */
export const LOOKUP = Type.Union([Type.Object({ hash: Text }), Type.Object({ id: Text })]);
export type Lookup = Static<typeof LOOKUP>;
export const nameOfLookup = (lookup: Lookup): string => ("hash" in lookup ? lookup.hash : lookup.id);

/** A change that an organization's admin asks for. A key is revoked for good. */
export const KEY_CHANGE = Type.Union([
  Type.Object({ does: Type.Literal("create"), org: Text, request: KEY_CREATION }),
  Type.Object({ does: Type.Literal("update"), org: Text, id: Text, request: KEY_UPDATE }),
  Type.Object({ does: Type.Literal("revoke"), org: Text, id: Text }),
]);
export type KeyChange = Static<typeof KEY_CHANGE>;

export type Keys = ReturnType<typeof createHttpKeys>;
export type KeyLookup = Pick<Keys, "find">;

const lookupAnswer = Compile(
  Type.Union([
    Type.Object({ of: Text, found: Type.Literal(true), key: KEY_RECORD, org: ORGANIZATION }),
    Type.Object({ of: Text, found: Type.Literal(false) }),
  ]),
);

const readLookupAnswer = (lookup: Lookup, answer: unknown): KeySnapshot | null => {
  if (!lookupAnswer.Check(answer)) throw new Error("expected a key record or {found:false}");
  if (answer.of !== nameOfLookup(lookup)) throw new Error("expected the answer to this look-up, got another's");
  if (!answer.found) return null;
  const { key, org } = answer;
  const isIts = key.org_id === org.id && ("hash" in lookup || key.id === lookup.id);
  if (!isIts) throw new Error("expected key and owner to fit");
  return { key, org };
};

const REFUSED = [...(Object.keys(REFUSALS) as RefusalName[]), "not_found" as const];
const changeAnswer = Compile(
  Type.Union([
    Type.Object({ key: KEY_RECORD, secret: Type.Optional(Text) }),
    Type.Object({ refuse: Type.Enum(REFUSED) }),
  ]),
);

/** `find` and `change` reject with `Unavailable` without a valid answer in time: neither "valid" nor "unknown" (B4). */
export const createHttpKeys = (at: { url: string; network?: Network | undefined }) => {
  const link = openLink("key service", { ...at, connectTimeoutMs: 500 });
  return {
    /** `null`: unknown. */
    find: link.batched("lookups", readLookupAnswer),
    /** `not_found` for a key that is foreign, unknown, expired or revoked already (items 127, 141). */
    change: (change: KeyChange, budgetMs: number): Promise<ChangedKey | ManagementRefusal> =>
      link.ask("POST", "/changes", change, budgetMs, (answer) => {
        const isWhole =
          changeAnswer.Check(answer) && ("refuse" in answer || change.does !== "create" || "secret" in answer);
        if (!isWhole) throw new Error("expected a changed key, or a refusal");
        return answer;
      }),
    close: link.close,
  };
};

// The limiter as the API sees it: one atomic decision per call, refunds by charge id, and the ledger. The service's
// answer has its charge's id, so that the answer to another charge is detected.

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

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isWindow = (value: unknown): value is string => typeof value === "string" && /^\d{4}-\d\d$/.test(value);

/** Throws on the answer to another charge, a wrong shape, or a refunded charge; the call is then refused. */
export const readTakeAnswer = (take: Take, value: unknown): TakeOutcome => {
  const answer = value as Partial<Record<string, unknown>> | null;
  if (typeof answer !== "object" || answer === null) throw new Error("expected an object");
  if (answer.charge_id !== take.charge_id) throw new Error("expected the answer to this charge, got another's");
  const { verdict, used, window, wait_ms } = answer;
  if (verdict === "taken" && isWindow(window)) {
    if (take.meter === null && used === null) return { verdict, used, window };
    if (take.meter !== null && isCount(used)) return { verdict, used, window };
  }
  if (verdict === "rate_limited" && take.rate !== null && typeof wait_ms === "number" && wait_ms >= 0) {
    return { verdict, wait_ms };
  }
  if (verdict === "over_cap" && take.meter !== null && isCount(used) && isWindow(window)) {
    return { verdict, used, window };
  }
  if (verdict === "refunded" && take.meter !== null) throw new Error("the charge was refunded before it arrived");
  throw new Error("expected an answer that fits the take");
};

export const readRefundAnswer = (refund: Refund, value: unknown): void => {
  const answer = value as { charge_id?: unknown; refunded?: unknown } | null;
  if (answer?.charge_id !== refund.charge_id || answer.refunded !== true)
    throw new Error("expected a confirmed refund");
};

const REFUNDS_AT_ONCE = 4;
/** The budget of operator requests (the ledger, reading and setting meters), for which no call waits. */
export const OPERATOR_BUDGET_MS = 5_000;

export const createHttpLimiter = (at: { url: string; network?: Network | undefined }): Limiter => {
  const link = openLink("limiter", { ...at, connectTimeoutMs: 250 });
  return {
    take: link.batched("takes", readTakeAnswer),
    refund: link.batched("refunds", readRefundAnswer, REFUNDS_AT_ONCE),
    used: (org, meter) => {
      const path = `/meters?org=${encodeURIComponent(org)}&meter=${meter}`;
      return link.ask("GET", path, undefined, OPERATOR_BUDGET_MS, (answer) => (answer as { used: number }).used);
    },
    setUsed: (org, meter, used) => link.ask("PUT", "/meters", { org, meter, used }, OPERATOR_BUDGET_MS, () => {}),
    close: link.close,
  };
};

// Months and the life of keys follow a clock that an operator can shift; request rates follow a steady one.

export type Instant = {
  /** Milliseconds since 1970, shifted. */
  nowMs: number;
  /** Milliseconds since an arbitrary time; only differences have a meaning. */
  steadyMs: number;
};

export const shiftableClock = () => {
  let offset = 0;
  const nowMs = (): number => Date.now() + offset;
  return {
    nowMs,
    instant: (): Instant => ({ nowMs: nowMs(), steadyMs: performance.now() }),
    offsetMs: () => offset,
    setOffsetMs: (offsetMs: number): void => {
      offset = offsetMs;
    },
  };
};

export type Clock = ReturnType<typeof shiftableClock>;

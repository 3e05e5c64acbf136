/**
 * The behaviours that roles are built from, as one record. `HEALTHY` is the reference; a mutant is a copy of it with one
 * entry wrapped from outside. Nothing else in the platform knows of mutants: no flag, no header, no `if`.
 */
import type { Call } from "../core/call.ts";
import { HEALTHY_ORDERS } from "../core/order.ts";
import { fixedShedder } from "../core/shedding.ts";
import { allowedOrigin, writeAnswer, writeRefusal } from "./api/answer.ts";
import { requestLogFields } from "./api/caller.ts";
import { HEALTHY_VOICE } from "./api/routes/stream-run.ts";
import { sessionClaims } from "./api/sessions.ts";
import type { RefundPolicy } from "./api/settlement.ts";
import { KEY_DECISIONS, type KeyStore } from "./keys/store.ts";
import { LIMITER_DECISIONS, type LimiterStore } from "./limiter/store.ts";
import type { Network } from "./links/http-service.ts";
import type { KeyLookup, Limiter } from "./ports.ts";

export const HEALTHY = {
  orders: HEALTHY_ORDERS,
  shedder: fixedShedder,
  writeRefusal,
  writeAnswer,
  sessionClaims,
  /** `Access-Control-Allow-Origin` of an answer to a call; preflights do not use it. */
  cors: allowedOrigin,
  voice: HEALTHY_VOICE,
  /** The final service time of call number `n`, in milliseconds. */
  serviceMs: (drawnMs: number, _n: number): number => drawnMs,
  keyCache: { maxAgeMs: 1_000, singleFlight: true },
  linkNetwork: (network: Network): Network => network,
  keyLink: (keys: KeyLookup): KeyLookup => keys,
  limiterLink: (limiter: Limiter): Limiter => limiter,
  /** The id of a charge and its refund, from a fresh id and the request's id. */
  chargeId: (fresh: string, _requestId: string): string => fresh,
  settlement: { refunds: () => true } as RefundPolicy,
  slots: {
    /** Called just before the last byte of the answer is written. */
    answering: (call: Call): void => call.leave(),
    /** Called as soon as the client has left. */
    clientLeft: (call: Call): void => call.leave(),
  },
  /** The outcome and organization that a call is counted as; `null` counts nothing. */
  count: (outcome: string, org: string): { outcome: string; org: string } | null => ({ outcome, org }),
  requestLog: requestLogFields,
  streamsFinishOnStop: true,
  /** Whether a stopping deployment waits for refunds that are not confirmed yet. */
  refundsSettleOnStop: true,
  /** The pure decisions inside the stores, and the stores themselves as their services see them. */
  limiterDecisions: LIMITER_DECISIONS,
  limiterStore: (store: LimiterStore): LimiterStore => store,
  keyDecisions: KEY_DECISIONS,
  keyStore: (store: KeyStore): KeyStore => store,
};

export type Parts = typeof HEALTHY;

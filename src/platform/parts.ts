/**
 * The behaviours that roles are built from, as one record. `HEALTHY` is the reference; a mutant is a copy of it with one
 * entry wrapped from outside. Nothing else in the platform knows of mutants: no flag, no header, no `if`.
 */
import type { ServerResponse } from "node:http";
import type { Call, Refuse } from "../core/call.ts";
import { HEALTHY_ORDERS, type Orders } from "../core/order.ts";
import { type Caps, fixedShedder, type Shedder } from "../core/shedding.ts";
import { type Answer, allowedOrigin, writeAnswer, writeRefusal } from "./api/answer.ts";
import type { KeyCachePolicy } from "./api/key-cache.ts";
import { type CallEntry, requestLogFields } from "./api/request-log.ts";
import { HEALTHY_VOICE, type StreamVoice } from "./api/routes/stream-script.ts";
import { type Mint, type SessionClaims, sessionClaims } from "./api/sessions.ts";
import type { RefundPolicy } from "./api/settlement.ts";
import { KEY_DECISIONS, type KeyDecisions, type KeyStore } from "./keys/store.ts";
import type { KeyLookup } from "./keys.ts";
import { LIMITER_DECISIONS, type LimiterDecisions, type LimiterStore } from "./limiter/store.ts";
import type { Limiter } from "./limiter.ts";
import type { Network } from "./links/network.ts";

export type SlotPolicy = {
  /** Just before the last byte of the answer is written. */
  answering(call: Call): void;
  /** The client has left: at once. */
  clientLeft(call: Call): void;
};

export type Parts = {
  orders: Orders;
  shedder(caps: Caps): Shedder;
  writeRefusal(refuse: Refuse): Answer;
  writeAnswer(response: ServerResponse, status: number, headers: string[], body: string): void;
  sessionClaims(mint: Mint, lifetimeS: number): SessionClaims;
  /** `Access-Control-Allow-Origin` of a real answer. */
  cors(call: Call): string | null;
  voice: StreamVoice;
  /** Last word on how long the inference takes for call number `n`, in milliseconds. */
  serviceMs(drawnMs: number, n: number): number;
  keyCache: KeyCachePolicy;
  linkNetwork(network: Network): Network;
  keyLink(keys: KeyLookup): KeyLookup;
  limiterLink(limiter: Limiter): Limiter;
  /** The id that charges and refunds go by, from a fresh one and the request's. */
  chargeId(fresh: string, requestId: string): string;
  settlement: RefundPolicy;
  slots: SlotPolicy;
  /** What is counted for a call, `null` for nothing. */
  count(outcome: string, org: string): { outcome: string; org: string } | null;
  requestLog(entry: CallEntry): Record<string, unknown>;
  streamsFinishOnStop: boolean;
  /** Whether refunds that are not confirmed yet keep a deployment that stops from ending. */
  refundsSettleOnStop: boolean;
  /** The pure decisions inside the stores, and the stores themselves as their services see them. */
  limiterDecisions: LimiterDecisions;
  limiterStore(store: LimiterStore): LimiterStore;
  keyDecisions: KeyDecisions;
  keyStore(store: KeyStore): KeyStore;
};

export const HEALTHY: Parts = {
  orders: HEALTHY_ORDERS,
  shedder: fixedShedder,
  writeRefusal,
  writeAnswer,
  sessionClaims,
  cors: allowedOrigin,
  voice: HEALTHY_VOICE,
  serviceMs: (drawnMs) => drawnMs,
  keyCache: { maxAgeMs: 1_000, singleFlight: true },
  linkNetwork: (network) => network,
  keyLink: (keys) => keys,
  limiterLink: (limiter) => limiter,
  chargeId: (fresh) => fresh,
  settlement: { refunds: () => true },
  slots: { answering: (call) => call.leave(), clientLeft: (call) => call.leave() },
  count: (outcome, org) => ({ outcome, org }),
  requestLog: requestLogFields,
  streamsFinishOnStop: true,
  refundsSettleOnStop: true,
  limiterDecisions: LIMITER_DECISIONS,
  limiterStore: (store) => store,
  keyDecisions: KEY_DECISIONS,
  keyStore: (store) => store,
};

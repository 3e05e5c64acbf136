/** When a session is minted anew: early enough that a call which takes the old one still arrives within its life. */

/** This share of its life has gone. Each mint of the product `tile` is a map load, so not much earlier than needed. */
const RENEW_AT = 0.6;

/** `mintedMs` and the answer on one clock, in milliseconds. */
export const renewAtMs = (mintedMs: number, lifeMs: number): number => mintedMs + lifeMs * RENEW_AT;

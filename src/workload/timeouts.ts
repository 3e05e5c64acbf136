/** How long a client waits, whoever sends for it: a call that one driver gives up must not be an answer for another. */

export type Timeouts = {
  /** From the first byte sent to the end of the answer. */
  callMs: number;
  /** Until the first event of a stream, or the head of another answer. */
  firstEventMs: number;
  /** Between two reads of an answer; a comment counts as one. */
  idleMs: number;
};

/** Calls that left at the end of a load may wait for the budget as long as for their answer. */
export const callsEndMs = ({ callMs }: Timeouts): number => 2 * callMs;

export const TIMEOUTS: Timeouts = { callMs: 60_000, firstEventMs: 15_000, idleMs: 20_000 };

/** This share of its life has gone. Each mint of the product `tile` is a map load, so not much earlier than needed. */
const RENEW_AT = 0.6;

/** `mintedMs` and the answer on one clock, in milliseconds. */
export const renewAtMs = (mintedMs: number, lifeMs: number): number => mintedMs + lifeMs * RENEW_AT;

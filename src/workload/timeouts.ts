/** How long a client waits, the same for every driver. */

export type Timeouts = {
  /** From the first byte sent to the end of the answer. */
  callMs: number;
  /** Until the first event of a stream, or the head of another answer. */
  firstEventMs: number;
  /** Between two reads of an answer; the comment of a stream counts as a read. */
  idleMs: number;
};

/** The longest time from the last arrival to the end of all calls: a wait for the budget, and one for the answer. */
export const callsEndMs = ({ callMs }: Timeouts): number => 2 * callMs;

export const TIMEOUTS: Timeouts = { callMs: 60_000, firstEventMs: 15_000, idleMs: 20_000 };

/** Share of a session's life after which it is renewed; no earlier, because a mint of product `tile` is a map load. */
const RENEW_AT = 0.6;

export const renewAtMs = (mintedMs: number, lifeMs: number): number => mintedMs + lifeMs * RENEW_AT;

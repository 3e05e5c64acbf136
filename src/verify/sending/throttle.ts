/** Paces calls evenly. A limit pauses all calls and lowers the pace. */
import { setTimeout } from "node:timers/promises";

export const RATE_PER_S = 20;
const SLOWEST_PER_S = 1;
const SLOWER_BY = { rate: 0.8, overload: 0.95 } as const;
const FASTER_BY = 1.03;

/** Resolves to `true` after `ms`; rejects with the signal's reason. */
export const wait = (ms: number, signal?: AbortSignal): Promise<boolean> =>
  setTimeout(ms, true, { signal }).catch((error: unknown) => {
    throw signal?.reason ?? error;
  });

const LOOK_EVERY_MS = 1_000;

/** Calls `look` once a second until it is `true` or `forMs` have passed by the clock. A `false` from `rest` ends it. */
export const lookEverySecond = async (
  look: () => Promise<boolean>,
  forMs: number,
  rest: (ms: number) => Promise<boolean>,
): Promise<boolean> => {
  const endMs = performance.now() + forMs;
  while (performance.now() < endMs && (await rest(LOOK_EVERY_MS))) if (await look()) return true;
  return false;
};

export type Throttle = ReturnType<typeof createThrottle>;

export const createThrottle = (ratePerS: number, signal?: AbortSignal) => {
  let rate = ratePerS;
  let nextMs = performance.now();
  let pausedUntilMs = nextMs;
  return {
    get ratePerS(): number {
      return rate;
    },
    turn: async (): Promise<void> => {
      signal?.throwIfAborted();
      const dueMs = Math.max(nextMs, performance.now());
      nextMs = dueMs + 1000 / rate;
      for (let waitMs = dueMs - performance.now(); waitMs > 0; waitMs = pausedUntilMs - performance.now())
        await wait(waitMs, signal);
    },
    pause: (ms: number): void => {
      pausedUntilMs = Math.max(pausedUntilMs, performance.now() + ms);
      nextMs = Math.max(nextMs, pausedUntilMs);
    },
    /** A rate limit is our own doing and slows calls more than overload, which others may cause. */
    slower: (why: keyof typeof SLOWER_BY): void => {
      rate = Math.max(Math.min(SLOWEST_PER_S, ratePerS), rate * SLOWER_BY[why]);
    },
    faster: (): void => {
      rate = Math.min(ratePerS, rate * FASTER_BY);
    },
  };
};

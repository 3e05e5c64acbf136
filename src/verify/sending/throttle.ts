/** Paces calls evenly. A limit pauses all calls and lowers the pace. */

/** Default rate. */
export const RATE_PER_S = 20;
const SLOWEST_PER_S = 1;
const SLOWER_BY = { rate: 0.8, overload: 0.95 } as const;
const FASTER_BY = 1.03;

export const wait = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const stopped = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stopped);
      resolve();
    }, ms);
    if (signal?.aborted === true) stopped();
    else signal?.addEventListener("abort", stopped, { once: true });
  });

export type Throttle = ReturnType<typeof createThrottle>;

export const createThrottle = (ratePerS: number, signal?: AbortSignal) => {
  let rate = ratePerS;
  let nextMs = performance.now();
  let pausedUntilMs = nextMs;
  return {
    get ratePerS(): number {
      return rate;
    },
    /** Resolves when the next call may leave. Rejects on a stop. */
    turn: async (): Promise<void> => {
      signal?.throwIfAborted();
      const dueMs = Math.max(nextMs, performance.now());
      nextMs = dueMs + 1000 / rate;
      for (let waitMs = dueMs - performance.now(); waitMs > 0; waitMs = pausedUntilMs - performance.now()) {
        await wait(waitMs, signal);
      }
    },
    pause: (ms: number): void => {
      pausedUntilMs = Math.max(pausedUntilMs, performance.now() + ms);
      nextMs = Math.max(nextMs, pausedUntilMs);
    },
    /** A rate limit is caused by us, overload perhaps by others. */
    slower: (why: keyof typeof SLOWER_BY): void => {
      rate = Math.max(Math.min(SLOWEST_PER_S, ratePerS), rate * SLOWER_BY[why]);
    },
    /** Speeds up a little, towards the requested rate. */
    faster: (): void => {
      rate = Math.min(ratePerS, rate * FASTER_BY);
    },
  };
};

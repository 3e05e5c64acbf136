/** Months and the life of keys follow a clock that an operator can shift; request rates follow a steady one. */

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

/** Months and the life of keys follow a clock that an operator can shift; request rates follow a steady one. */

export type Instant = {
  /** Milliseconds since 1970, shifted. */
  nowMs: number;
  /** Milliseconds since some fixed moment; only differences mean something. */
  steadyMs: number;
};

export type Clock = {
  nowMs(): number;
  instant(): Instant;
  offsetMs(): number;
  setOffsetMs(offsetMs: number): void;
};

export const shiftableClock = (
  realMs: () => number = Date.now,
  steadyMs: () => number = () => performance.now(),
): Clock => {
  let offset = 0;
  const nowMs = (): number => realMs() + offset;
  return {
    nowMs,
    instant: () => ({ nowMs: nowMs(), steadyMs: steadyMs() }),
    offsetMs: () => offset,
    setOffsetMs: (offsetMs) => {
      offset = offsetMs;
    },
  };
};

/** Round durations along a logarithmic scale, in milliseconds: a few, however far it reaches. */

/** Within a decade, from the fewest to the most. */
const STEPS = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 5, 7], [1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9]];
const DECADES = [0.001, 0.01, 0.1, 1, 10, 100, 1_000, 10_000, 100_000];
const ENOUGH = 3;
const TICKS_MOST = 6;

export const logTicks = (lowMs: number, highMs: number): number[] => {
  const between = (steps: readonly number[]): number[] =>
    DECADES.flatMap((decade) => steps.map((step) => step * decade)).filter((ms) => ms >= lowMs && ms <= highMs);
  const all = STEPS.map(between).filter((ticks) => ticks.length <= TICKS_MOST);
  // Over many decades every second one, or third.
  const sparse = (ticks: readonly number[]): number[] => {
    const every = Math.ceil(ticks.length / TICKS_MOST);
    return ticks.filter((_, i) => i % every === 0);
  };
  return all.find((ticks) => ticks.length >= ENOUGH) ?? all.at(-1) ?? sparse(between([1]));
};

/** A search for the highest rate that holds, by ratios: up or down to a bracket, then halved until it is narrow. */

/** A result is so near to the rate that does not hold any more. */
const NARROW = 1.06;
const LOWEST = 10;
const HIGHEST = 200_000;

/** 0: not even the lowest rate holds. */
export const highestHeld = async (start: number, holds: (ratePerS: number) => Promise<boolean>): Promise<number> => {
  let low = 0;
  let high = Number.POSITIVE_INFINITY;
  let rate = start;
  while (low === 0 || high / low > NARROW) {
    if (rate < LOWEST) return 0;
    if (rate > HIGHEST) return low;
    if (await holds(Math.round(rate))) low = rate;
    else high = rate;
    if (low === 0) rate = high / 1.5;
    else if (high === Number.POSITIVE_INFINITY) rate = low * 1.5;
    else rate = Math.sqrt(low * high);
  }
  return low;
};

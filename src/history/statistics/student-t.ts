/**
 * Student's t distribution for whole degrees of freedom. Written here because @stdlib/stats-base-dists-t-quantile (0.2.3)
 * brings more than 200 packages for one number. Source: Abramowitz & Stegun, "Handbook of Mathematical Functions" (1964),
 * 26.7.3 and 26.7.4, finite sums that are exact.
 */

/** The share of the distribution within `t` of zero, on both sides together. */
const within = (t: number, freedom: number): number => {
  const angle = Math.atan(t / Math.sqrt(freedom));
  const cosine = Math.cos(angle);
  const isOdd = freedom % 2 === 1;
  let term = isOdd ? cosine : 1;
  let sum = freedom === 1 ? 0 : term;
  for (let k = isOdd ? 3 : 2; k <= freedom - 2; k += 2) {
    term *= ((k - 1) / k) * cosine * cosine;
    sum += term;
  }
  return isOdd ? (2 / Math.PI) * (angle + Math.sin(angle) * sum) : Math.sin(angle) * sum;
};

/**
 * Between minus and plus this value lies `confidence` of the distribution. Throws `RangeError` for degrees of freedom that
 * are not a whole number above 0.
 */
export const studentT = (freedom: number, confidence = 0.95): number => {
  if (!Number.isSafeInteger(freedom) || freedom < 1) throw new RangeError(`${freedom} are no degrees of freedom`);
  let high = 1;
  while (within(high, freedom) < confidence) high *= 2;
  let low = 0;
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (within(middle, freedom) < confidence) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
};

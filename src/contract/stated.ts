/** Leaves out members that are `undefined`. Spread over defaults, the result keeps the default of each of them. */
export const stated = <T extends object>(given: T): T =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as T;

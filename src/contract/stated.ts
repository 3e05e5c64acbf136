/** The members that are stated: one that is `undefined` is as if it were absent, so that spreading it keeps a default. */
export const stated = <T extends object>(given: T): T =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as T;

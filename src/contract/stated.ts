/** A copy without the members that are `undefined`, so that spreading it over defaults keeps those defaults. */
export const stated = <T extends object>(given: T): T =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as T;

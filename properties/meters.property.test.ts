/** The month of a charge (item 229) and the cap of a meter (A8, A8b), for all times and all counts. */
import fc from "fast-check";
import { expect } from "vitest";
import { HARD_STOP_FACTOR } from "../src/contract/refusals.ts";
import { fits, mapLoadCap, overCapRefusal, windowOf } from "../src/core/meters.ts";
import { law } from "./laws/law.ts";
import { organizationArb } from "./model/arbitraries.ts";

const RUNS = { quick: 2_000, nightly: 200_000 };
/** The times that a `Date` can hold: about 271 000 years to either side of 1970. */
const timeArb = fc.oneof(
  fc.integer({ min: -8.64e15, max: 8.64e15 }),
  fc.date({ min: new Date("1970-01-01"), max: new Date("2200-01-01"), noInvalidDate: true }).map(Number),
);
const monthOf = (ms: number): string => {
  const date = new Date(ms);
  return `${date.getUTCFullYear()}-${`${date.getUTCMonth() + 1}`.padStart(2, "0")}`;
};

law(
  "the window of a moment is its calendar month in UTC",
  () =>
    fc.property(timeArb, (ms) => {
      expect(windowOf(ms)).toBe(monthOf(ms));
    }),
  RUNS,
);

law(
  "a month begins at its first millisecond and ends at its last",
  () =>
    fc.property(fc.integer({ min: 1970, max: 9999 }), fc.integer({ min: 0, max: 11 }), (year, month) => {
      const first = Date.UTC(year, month, 1);
      expect(windowOf(first)).toBe(new Date(first).toISOString().slice(0, 7));
      expect(windowOf(first - 0.5)).toBe(monthOf(first - 1));
      expect(windowOf(first - 0.5)).not.toBe(windowOf(first));
    }),
  RUNS,
);

law(
  "windows sort as text in the order of time",
  () =>
    fc.property(fc.nat({ max: 7.2e12 }), fc.nat({ max: 7.2e12 }), (one, two) => {
      const [early, late] = one <= two ? [one, two] : [two, one];
      expect(windowOf(early) <= windowOf(late)).toBe(true);
    }),
  RUNS,
);

law(
  "charging one by one ends exactly at the cap, and never above it",
  () =>
    fc.property(organizationArb, fc.nat({ max: 120 }), (org, calls) => {
      const cap = mapLoadCap(org);
      let used = 0;
      for (let call = 0; call < calls; call += 1) if (fits(used, 1, cap)) used += 1;
      expect(used).toBe(Math.min(calls, cap));
    }),
  RUNS,
);

law(
  "a paid organization stops at five times its allowance, any other at it, and the refusal says which",
  () =>
    fc.property(organizationArb, (org) => {
      const paid = org.tier === "Pro";
      expect(HARD_STOP_FACTOR).toBe(5);
      expect(mapLoadCap(org)).toBe(paid ? 5 * org.map_load_allowance : org.map_load_allowance);
      expect(overCapRefusal(org)).toBe(paid ? "map_load_hard_stop" : "map_load_quota_exceeded");
      expect(Number.isInteger(mapLoadCap(org))).toBe(true);
    }),
  { quick: 200, nightly: 10_000 },
);

law(
  "a meter without a cap only counts",
  () => fc.property(fc.nat(), fc.nat(), (used, amount) => fits(used, amount, null)),
  { quick: 100, nightly: 1_000 },
);

/**
 * Schedules: for any profile the arrivals ascend, stay inside it, are as many as it offers, come as dense as its rate at
 * every moment, and are the same again from the same seed.
 */
import fc from "fast-check";
import { expect } from "vitest";
import {
  type Arrivals,
  arrivalTimesUs,
  type Profile,
  profileCalls,
  profileDurationS,
  scaleProfile,
  scheduleOf,
} from "../src/workload/load-profiles.ts";
import { law } from "./laws/law.ts";

const RUNS = { quick: 200, nightly: 20_000 };

const rateArb = fc.oneof(
  fc.constant(0),
  fc.integer({ min: 1, max: 100 }),
  fc.double({ min: 0.01, max: 100, noNaN: true }),
);
const profileArb: fc.Arbitrary<Profile> = fc
  .array(fc.record({ from: rateArb, to: rateArb, durationS: fc.double({ min: 0.01, max: 8, noNaN: true }) }), {
    minLength: 1,
    maxLength: 5,
  })
  .map((pieces) => ({ name: "drawn", pieces }));
const arrivalsArb = fc.constantFrom<Arrivals>("uniform", "poisson");
const seedArb = fc.integer();

/** Calls offered until a moment: the integral of the rate, by hand. */
const offeredUntil = (profile: Profile, seconds: number): number => {
  let offered = 0;
  let begins = 0;
  for (const { from, to, durationS } of profile.pieces) {
    const t = Math.min(durationS, Math.max(0, seconds - begins));
    offered += from * t + (((to - from) / durationS) * t * t) / 2;
    begins += durationS;
  }
  return offered;
};

law(
  "arrivals ascend, begin no earlier than the profile and end with it",
  () =>
    fc.property(profileArb, arrivalsArb, seedArb, (profile, arrivals, seed) => {
      const times = arrivalTimesUs(profile, arrivals, seed);
      const endUs = profileDurationS(profile) * 1e6 + 1;
      for (const [i, us] of times.entries()) {
        expect(Number.isInteger(us)).toBe(true);
        expect(us).toBeGreaterThanOrEqual(times[i - 1] ?? 0);
        expect(us).toBeLessThanOrEqual(endUs);
      }
    }),
  RUNS,
);

law(
  "the k-th uniform arrival is where the profile has offered k calls",
  () =>
    fc.property(profileArb, seedArb, (profile, seed) => {
      const times = arrivalTimesUs(profile, "uniform", seed);
      const calls = profileCalls(profile);
      expect(Math.abs(times.length - calls)).toBeLessThanOrEqual(1);
      for (const [k, us] of times.entries()) {
        // Half a microsecond of rounding, at up to 100 calls a second.
        expect(Math.abs(offeredUntil(profile, us / 1e6) - k)).toBeLessThan(0.001);
      }
    }),
  RUNS,
);

law(
  "poisson arrivals are as many as offered, within six standard deviations",
  () =>
    fc.property(profileArb, seedArb, (profile, seed) => {
      const calls = profileCalls(profile);
      const { length } = arrivalTimesUs(profile, "poisson", seed);
      expect(Math.abs(length - calls)).toBeLessThanOrEqual(6 * Math.sqrt(calls) + 6);
    }),
  RUNS,
);

law(
  "the same seed gives the same schedule, walked or at once",
  () =>
    fc.property(profileArb, arrivalsArb, seedArb, (profile, arrivals, seed) => {
      const times = arrivalTimesUs(profile, arrivals, seed);
      const schedule = scheduleOf(profile, arrivals, seed);
      for (const us of times) expect(schedule.next().value).toBe(us);
      expect([schedule.next().done, schedule.next().done]).toEqual([true, true]);
    }),
  RUNS,
);

law(
  "a profile scaled up offers its multiple in the same time",
  () =>
    fc.property(profileArb, fc.integer({ min: 2, max: 5 }), (profile, factor) => {
      const scaled = scaleProfile(profile, factor);
      expect(profileDurationS(scaled)).toBeCloseTo(profileDurationS(profile), 9);
      expect(profileCalls(scaled)).toBeCloseTo(profileCalls(profile) * factor, 6);
      expect(
        Math.abs(arrivalTimesUs(scaled, "uniform", 1).length - profileCalls(profile) * factor),
      ).toBeLessThanOrEqual(1);
    }),
  RUNS,
);

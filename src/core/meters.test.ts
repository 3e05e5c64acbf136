import { describe, expect, test } from "vitest";
import type { Organization, Tier } from "./call.ts";
import { fits, mapLoadCap, overCapRefusal, windowOf } from "./meters.ts";

const org = (tier: Tier | null): Organization => ({ tier, map_load_allowance: 10 }) as Organization;

describe("the cap of map loads (A8)", () => {
  test.each<[Tier | null, number, string]>([
    ["Free", 10, "map_load_quota_exceeded"],
    ["Pro", 50, "map_load_hard_stop"],
    [null, 10, "map_load_quota_exceeded"],
  ])("%s: %i, then %s", (tier, cap, refusal) => {
    expect(mapLoadCap(org(tier))).toBe(cap);
    expect(overCapRefusal(org(tier))).toBe(refusal);
  });
});

describe("a charge fits", () => {
  test.each<[string, number, number, number | null, boolean]>([
    ["up to the cap (A8b)", 9, 1, 10, true],
    ["not above it", 10, 1, 10, false],
    ["not as a part", 9, 2, 10, false],
    ["never where the cap is nothing", 0, 1, 0, false],
    ["always where there is no cap", 1e9, 1, null, true],
    ["not after a downgrade that left more used than allowed", 42, 1, 10, false],
  ])("%s", (_, used, amount, cap, expected) => {
    expect(fits(used, amount, cap)).toBe(expected);
  });
});

describe("the month of a moment, in UTC (item 229)", () => {
  test.each([
    ["1970-01-01T00:00:00.000Z", "1970-01"],
    ["1969-12-31T23:59:59.999Z", "1969-12"],
    ["2026-12-31T23:59:59.999Z", "2026-12"],
    ["2027-01-01T00:00:00.000Z", "2027-01"],
    ["2028-02-29T12:00:00.000Z", "2028-02"],
    ["2028-03-01T00:00:00.000Z", "2028-03"],
    ["2100-02-28T23:59:59.999Z", "2100-02"],
    ["2100-03-01T00:00:00.000Z", "2100-03"],
    ["2000-02-29T00:00:00.000Z", "2000-02"],
  ])("%s is in %s", (time, month) => {
    expect(windowOf(Date.parse(time))).toBe(month);
  });
});

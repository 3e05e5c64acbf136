import { describe, expect, test } from "vitest";
import { admittedByWindow, inOneWindow, type MintSeen, monthIsNew, windowOf } from "./month-windows.ts";

const EDGE_MS = Date.UTC(2026, 10, 1);
const HOUR_MS = 3_600_000;
const mint = (fromEdgeMs: number): MintSeen => ({
  sentMs: EDGE_MS + fromEdgeMs,
  doneMs: EDGE_MS + fromEdgeMs + 20,
  admitted: true,
});

describe("mints at a month's edge", () => {
  test("count for the month in which they surely fell, and for none when clocks could disagree", () => {
    const mints = [mint(-60_000), mint(-50_000), mint(-1_000), mint(2_000), mint(60_000)];
    expect([...admittedByWindow(mints).values()]).toEqual([2, 1]);
    expect(inOneWindow(mints, EDGE_MS + 61_000)).toBe(false);
  });

  test("are on two sides of it wherever the month may begin, in any time zone", () => {
    for (const hours of [-14, -5.5, -0.25, 3, 12]) {
      const at = hours * HOUR_MS;
      expect(inOneWindow([mint(at - 10_000)], EDGE_MS + at + 10_000)).toBe(false);
    }
    expect(inOneWindow([mint(-14.5 * HOUR_MS)], EDGE_MS - 14.3 * HOUR_MS)).toBe(true);
    expect(inOneWindow([mint(12.1 * HOUR_MS)], EDGE_MS + 500 * HOUR_MS)).toBe(true);
  });

  test("far from the edge all of them are in one window, and refused ones count nothing", () => {
    const mints = [mint(-20 * HOUR_MS), { ...mint(-19 * HOUR_MS), admitted: false }];
    expect(inOneWindow(mints, EDGE_MS - 18 * HOUR_MS)).toBe(true);
    expect(admittedByWindow(mints).get("2026-10")).toBe(1);
  });

  test("what was sent long after the last mint is looked at as well", () => {
    expect(inOneWindow([mint(-20 * HOUR_MS)], EDGE_MS + HOUR_MS)).toBe(false);
  });
});

test("a month is new on its first day in any time zone, and not before or long after", () => {
  const isNew = (hours: number): boolean => monthIsNew(EDGE_MS + hours * HOUR_MS);
  expect([-14.1, -14, 3, 35.9, 36.1, 400].map(isNew)).toEqual([false, true, true, true, false, false]);
  expect(windowOf(EDGE_MS + 400 * HOUR_MS)).toBe("2026-11");
});

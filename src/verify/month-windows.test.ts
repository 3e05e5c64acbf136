import { describe, expect, test } from "vitest";
import { admittedByWindow, inOneWindow, type MintSeen } from "./month-windows.ts";

const EDGE_MS = Date.UTC(2026, 10, 1);
const mint = (fromEdgeMs: number): MintSeen => ({
  sentMs: EDGE_MS + fromEdgeMs,
  doneMs: EDGE_MS + fromEdgeMs + 20,
  admitted: true,
});

describe("mints at a month's edge", () => {
  test("count for the month in which they surely fell, and for none when clocks could disagree", () => {
    const mints = [mint(-60_000), mint(-50_000), mint(-1_000), mint(2_000), mint(60_000)];
    expect(Object.fromEntries(admittedByWindow(mints))).toEqual({ "2026-10": 2, "2026-11": 1 });
    expect(inOneWindow(mints)).toBe(false);
  });

  test("far from the edge all of them are in one window, and refused ones count nothing", () => {
    const mints = [mint(-90_000), { ...mint(-80_000), admitted: false }];
    expect(inOneWindow(mints)).toBe(true);
    expect(admittedByWindow(mints).get("2026-10")).toBe(1);
  });
});

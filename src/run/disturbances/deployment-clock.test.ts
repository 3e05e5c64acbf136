import { expect, test } from "vitest";
import { toNextMonthMs } from "./deployment-clock.ts";

const monthAfter = (now: string): string => new Date(Date.parse(now) + toNextMonthMs(Date.parse(now))).toISOString();

test("a clock is moved just past a month's edge, and never past one that the calendar may pass meanwhile", () => {
  expect(monthAfter("2026-11-22T09:00:00Z")).toBe("2026-12-01T00:01:00.000Z");
  expect(monthAfter("2026-12-02T00:00:00Z")).toBe("2027-01-01T00:01:00.000Z");
  expect(monthAfter("2026-11-30T23:59:00Z")).toBe("2027-01-01T00:01:00.000Z");
});

import { expect, test } from "vitest";
import { offsetBeforeMonthMs } from "./operator.ts";

const shown = (now: string): string =>
  new Date(Date.parse(now) + offsetBeforeMonthMs(Date.parse(now), 2_000)).toISOString();

test("a clock is moved to just before a month's edge, and never to one that the calendar may pass meanwhile", () => {
  expect(shown("2026-11-22T09:00:00Z")).toBe("2026-11-30T23:59:58.000Z");
  expect(shown("2026-12-02T00:00:00Z")).toBe("2026-12-31T23:59:58.000Z");
  expect(shown("2026-11-30T23:59:00Z")).toBe("2026-12-31T23:59:58.000Z");
});

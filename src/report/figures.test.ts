import { expect, test } from "vitest";
import { count, counted, duration, figure, moment, share, whyNoInterval } from "./figures.ts";

test("counts have their thousands apart", () => {
  expect([count(0), count(999), count(1234567), count(-4321)]).toEqual(["0", "999", "1,234,567", "-4,321"]);
  expect([counted(1, "call"), counted(2, "call")]).toEqual(["1 call", "2 calls"]);
});

test("figures keep what matters and no more", () => {
  expect([0, 0.984, 8.31, 31.7, 204, 204.44, 12345.6, -0.0007, 0.00001].map(figure)).toEqual([
    "0",
    "0.984",
    "8.31",
    "31.7",
    "204",
    "204.4",
    "12,346",
    "-0.0007",
    "1.0e-5",
  ]);
});

test("a share that is there is never 0 %, one that is not all never 100 %", () => {
  expect([share(0, 10), share(10, 10), share(1, 100_000), share(99_999, 100_000), share(1, 3), share(0, 0)]).toEqual([
    "0 %",
    "100 %",
    "<0.1 %",
    ">99.9 %",
    "33.3 %",
    "–",
  ]);
});

test("durations are said in the units of their size", () => {
  expect([850, 12_300, 144_000, 7_800_000].map(duration)).toEqual(["850 ms", "12.3 s", "2 min 24 s", "2 h 10 min"]);
  expect(moment("2026-11-21T08:00:00.000Z")).toBe("2026-11-21 08:00:00 UTC");
});

test("a percentile without an interval says what it lacks, and nothing else has anything to say", () => {
  const measured = (name: string, n: number, low: number | null = null) => ({
    name,
    stage: "s",
    value: 1,
    unit: "ms",
    low,
    high: low,
    n,
  });
  expect(whyNoInterval(measured("latency_ms_p99", 367))).toBe("too few: it takes 368");
  expect(whyNoInterval(measured("latency_ms_p50", 1_000))).toBe("too few: calls of one burst are correlated");
  expect(whyNoInterval(measured("latency_ms_p50", 1_000, 1))).toBeNull();
  expect(whyNoInterval(measured("latency_ms_max", 5))).toBeNull();
  expect(whyNoInterval(measured("achieved_rate", 5))).toBeNull();
});

import { expect, test } from "vitest";
import type { Driven } from "../drivers/driver.ts";
import { Histogram } from "../history/statistics/histogram.ts";
import { stageHost } from "./witnesses.ts";

const driven = (problems: Driven["problems"]): Driven => ({ problems, notes: [], host: null, scheduledMs: 1_000 });
const used = { cores: 2, target_cores: 0.3, other_cores: 0.1 };

const OFF = {
  name: "k6: known stall, p99",
  driver: "k6",
  truth: 100,
  measured: 0,
  unit: "ms",
  verdict: "fail",
} as const;

test("what is known of a stage's host: lateness by share of calls, the rate that was held, what the driver doubts", () => {
  const problems: Driven["problems"] = [
    { verdict: "inconclusive", code: "generator-was-the-limit", reason: "some may have waited", about: "time" },
    { verdict: "inconclusive", code: "generator-was-the-limit", reason: "the generator was the bottleneck" },
  ];
  const lag = Histogram.of(Array.from({ length: 100 }, (_, i) => (i + 1) * 1000));
  const measurements = [{ name: "rate_error", stage: "s", value: -0.02, unit: "ratio", low: null, high: null, n: 100 }];
  const host = stageHost(lag, { driven: driven(problems), used, measurements, calibration: [OFF] });
  expect(host).toMatchObject({ target_cores: 0.3, other_cores: 0.1, calls: 100, rate_error: -0.02 });
  expect(host.lag_ms.map(([share, ms]) => [share, Math.round(ms)])).toEqual([
    [0.5, 50],
    [0.75, 75],
    [0.9, 90],
    [0.99, 99],
    [0.999, 100],
    [1, 100],
  ]);
  // The bottleneck is about whether the stage was played at all, and stays with the claim about that.
  expect([host.generator, host.calibration]).toEqual([["some may have waited"], [OFF]]);
});

test("of no calls nothing is known", () => {
  const host = stageHost(new Histogram(), { driven: driven([]), used, measurements: [], calibration: [] });
  expect(host).toMatchObject({ calls: 0, lag_ms: [], rate_error: null, generator: [] });
});

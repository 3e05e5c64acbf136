import { expect, test } from "vitest";
import type { Measurement } from "../history/run-document.ts";
import { nightJson } from "./formats.ts";
import { HOSTILE } from "./hostile-text.fixture.ts";
import { madeClaim, madeRun } from "./made-run.fixture.ts";

const measured = (name: string, stage: string): Measurement => ({
  ...{ name, stage, unit: "ms", value: 123.456789, low: 100.5, high: null, n: 1000 },
});

test("a night is its verdict, what failed, and its measures with their intervals", () => {
  const run = madeRun({
    claims: [madeClaim("shed/a", { verdict: "fail" }), madeClaim("shed/b", { verdict: "fail", level: "should" })],
    measurements: [measured("recovery_ms", "retry-storm")],
  });
  expect(JSON.parse(nightJson(run))).toMatchObject({
    ...{ schema: "floodgate/night@1", id: run.id, seed: run.seed, commit: run.commit, verdict: run.verdict },
    ...{ failed: ["shed/a"], claims: { pass: 0, fail: 2, inconclusive: 0, skipped: 0 }, left_out: 0 },
    measurements: { "retry-storm/recovery_ms": [123.5, 100.5, null, 1000] },
  });
});

test("however much was measured, it keeps to 4 KB, with the measures of shedding first", () => {
  const stages = Array.from({ length: 60 }, (_, at) => `stage-${at}`);
  const run = madeRun({
    target: { name: HOSTILE.repeat(99), base_url: "http://127.0.0.1", embedded: false },
    claims: stages.map((stage) => madeClaim(`claim/${stage}`, { verdict: "fail" })),
    measurements: [
      ...stages.flatMap((stage) => [measured("schedule_lag_ms_p50", stage), measured("latency_ms_p90", stage)]),
      measured("goodput_retention", "shedding-curve"),
    ],
  });
  const text = nightJson(run);
  expect(new TextEncoder().encode(text).length).toBeLessThanOrEqual(4_096);
  const { measurements, left_out: left, failed } = JSON.parse(text);
  expect(Object.keys(measurements)[0]).toBe("shedding-curve/goodput_retention");
  expect(Object.keys(measurements).length + left).toBe(run.measurements.length);
  expect(failed.length).toBeGreaterThan(0);
});

test("quantiles of stages with a schedule come before those of others", () => {
  const run = madeRun({
    measurements: [
      measured("latency_ms_p99", "limiter-reset"),
      measured("latency_ms_p50", "limiter-reset"),
      measured("latency_ms_p99", "steady-mix"),
      measured("offered_rate", "steady-mix"),
      measured("recovery_ms", "limiter-reset"),
    ],
  });
  expect(Object.keys(JSON.parse(nightJson(run)).measurements)).toEqual([
    "limiter-reset/recovery_ms",
    "steady-mix/offered_rate",
    "steady-mix/latency_ms_p99",
    "limiter-reset/latency_ms_p50",
    "limiter-reset/latency_ms_p99",
  ]);
});

test("times that the generator measured wrongly are no part of a night; those of another driver are", () => {
  const delay = {
    name: "delay, p50",
    driver: "open-loop",
    truth: 5,
    measured: 80,
    unit: "ms",
    verdict: "fail" as const,
  };
  const measurements = ["steady-mix", "chat-past-capacity"].map((stage) => measured("latency_ms_p50", stage));
  const night = JSON.parse(nightJson(madeRun({ calibration: [delay], measurements })));
  expect(Object.keys(night.measurements)).toEqual(["chat-past-capacity/latency_ms_p50"]);
  expect(night.left_out).toBe(1);
});

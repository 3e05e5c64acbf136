import { expect, test } from "vitest";
import { growthOf, WATCHED } from "./stage-claims.ts";

const MINUTES = 5;
const every = (value: (hours: number) => number) =>
  Array.from({ length: MINUTES * 12 }, (_, at) => ({ atMs: at * 5_000, value: value((at * 5_000) / 3_600_000) }));

test("each figure is judged by its own bound, in its own unit, after the warm-up", () => {
  const { claims, measurements } = growthOf(
    new Map([
      // Fills up for a minute and holds still then.
      ["heap", every((h) => 50e6 + Math.min(h, 1 / 60) * 60 * 30e6)],
      ["resident_memory", every((h) => 100e6 + h * 900e6)],
      ["sockets", every(() => 12)],
      ["timers", every((h) => 5 + h * 1_000)],
    ]),
    "again",
    true,
  );
  expect(claims.map(({ id, verdict }) => [id, verdict])).toEqual([
    ["growth/heap", "pass"],
    ["growth/resident_memory", "fail"],
    ["growth/sockets", "pass"],
    ["growth/timers", "fail"],
    ["growth/open_files", "skipped"],
  ]);
  const memory = measurements.find(({ name }) => name === "growth_resident_memory_per_hour");
  expect(memory?.value).toBeCloseTo(900, 0);
  expect(claims.at(-1)?.reason).toContain("observers.prometheus.queries");
  expect(new Set(WATCHED.map(({ name }) => name)).size).toBe(WATCHED.length);
});

test("a short look is inconclusive, not a pass", () => {
  const short = every(() => 1).slice(0, 10);
  expect(growthOf(new Map([["heap", short]]), "again", true).claims[0]).toMatchObject({ verdict: "inconclusive" });
});

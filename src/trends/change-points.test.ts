import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { changePoints, type Strictness } from "./change-points.ts";

/**
 * Series and the points that Apache Otava 0.8.0 finds in them, with its defaults (`pip install apache-otava`, then in Python):
 *
 *     import json, random
 *     from otava.analysis import compute_change_points
 *     r = random.Random(1)
 *     for n in (12, 30, 60, 90):
 *         for steps in ((), ((n // 2, 100),), ((n - 4, 200),), ((n // 3, 100), (2 * n // 3, -80))):
 *             values = [round(r.gauss(1000 + sum(by for at, by in steps if i >= at), 20)) for i in range(n)]
 *             points, _ = compute_change_points(list(values))
 *             print(json.dumps({"values": values, "points": [int(p.index) for p in points]}))
 */
const CASES: { values: number[]; points: number[] }[] = JSON.parse(
  readFileSync(new URL("./otava-points.json", import.meta.url), "utf8"),
);

const OTAVA: Strictness = { pMost: 0.001, leastChange: 0, leastEach: 1, leastVariance: 0, mayBeCorrelated: false };
const at = (values: readonly number[], over: Partial<Strictness> = {}): number[] =>
  changePoints(values, { ...OTAVA, ...over }).map((point) => point.at);

test.each(CASES.map((one, i) => [i, one] as const))("series %i has the points that Otava finds", (_i, one) => {
  expect(at(one.values)).toEqual(one.points);
});

const flat = Array.from({ length: 40 }, (_, i) => 100 + ((i * 7) % 5));
const raised = (from: number, to: number, by: number): number[] =>
  flat.map((value, i) => (i >= from && i < to ? value + by : value));

test("a level is described by its means up to the next points", () => {
  const [first, second] = changePoints(raised(15, 28, 40), OTAVA);
  expect([first?.at, second?.at]).toEqual([15, 28]);
  expect(first).toMatchObject({ before: expect.closeTo(102, 0), after: expect.closeTo(142, 0) });
});

test("fewer values than wanted on a side are no level, and no point is left beside them", () => {
  expect(at(raised(20, 21, 60), { leastEach: 3 })).toEqual([]);
  expect(at(raised(20, 22, 60), { leastEach: 3 })).toEqual([]);
  expect(at(raised(38, 40, 60), { leastEach: 3 })).toEqual([]);
  expect(at(raised(37, 40, 60), { leastEach: 3 })).toEqual([37]);
});

test("a change below the least one is none, and so is one within the variance that is believed at least", () => {
  expect(at(raised(20, 40, 6))).toEqual([20]);
  expect(at(raised(20, 40, 6), { leastChange: 7 })).toEqual([]);
  expect(at(raised(20, 40, 6), { leastVariance: 400 })).toEqual([]);
});

test("a slow wave has points, and none if neighbours may be alike; a step stays one", () => {
  const wave = flat.map((value, i) => value + 6 * Math.sin(i / 4));
  expect(at(wave).length).toBeGreaterThan(0);
  expect(at(wave, { mayBeCorrelated: true })).toEqual([]);
  expect(at(raised(20, 40, 20), { mayBeCorrelated: true })).toEqual([20]);
});

test.each([[[]], [[1]], [[1, 2]], [[5, 5, 5, 5, 5, 5]]])("%j has no point", (values) => {
  expect(at(values)).toEqual([]);
});

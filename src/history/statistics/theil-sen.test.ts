import fc from "fast-check";
import { expect, test } from "vitest";
import { theilSen } from "./growth.ts";

const points = (ys: readonly number[]) => ys.map((y, at) => ({ x: at + 1, y }));

test("the example of Hollander & Wolfe: cloud seeding (Smith 1967), sections 9.2 and 9.3", () => {
  const found = theilSen(points([1.26, 1.27, 1.12, 1.16, 1.03]), 0.916);
  expect(found?.slope).toBeCloseTo(-0.05625, 10);
  expect(found?.low).toBeCloseTo(-0.13, 10);
  expect(found?.high).toBeCloseTo(0.01, 10);
});

test("a line has its slope and no doubt; one wild point in five does not move it", () => {
  expect(theilSen(points([1, 3, 5, 7, 9, 11, 13, 15]))).toMatchObject({ slope: 2, low: 2, high: 2, n: 8 });
  expect(theilSen(points([1, 3, 500, 7, 9, 11, 13, -200, 17, 19]))?.slope).toBeCloseTo(2, 10);
});

test("too little to have a slope", () => {
  expect(theilSen([])).toBeNull();
  expect(theilSen([{ x: 1, y: 1 }])).toBeNull();
  expect(
    theilSen([
      { x: 1, y: 1 },
      { x: 1, y: 2 },
    ]),
  ).toBeNull();
});

test("the interval holds the slope, wider for more confidence, and moves with what is added to it", () => {
  const ys = fc.array(fc.double({ min: -1_000, max: 1_000, noNaN: true }), { minLength: 3, maxLength: 45 });
  fc.assert(
    fc.property(ys, fc.integer({ min: -9, max: 9 }), (values, more) => {
      const at = theilSen(points(values), 0.95);
      const wide = theilSen(points(values), 0.99);
      if (at === null || wide === null) throw new Error("expected a slope");
      expect(at.low).toBeLessThanOrEqual(at.slope);
      expect(at.high).toBeGreaterThanOrEqual(at.slope);
      expect(wide.low).toBeLessThanOrEqual(at.low);
      expect(wide.high).toBeGreaterThanOrEqual(at.high);
      const tilted = theilSen(points(values.map((y, i) => y + more * (i + 1))));
      expect(tilted?.slope).toBeCloseTo(at.slope + more, 6);
    }),
  );
});

test("95 % intervals hold the true slope about 95 times in 100", () => {
  // A generator of its own, so that the share is the same each time.
  let state = 12_345;
  const next = (): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return state / 2 ** 32;
  };
  const holds = (n: number): number => {
    let held = 0;
    for (let trial = 0; trial < 300; trial += 1) {
      const found = theilSen(
        points(Array.from({ length: n }, (_, i) => 3 * i + 10 * (next() + next() + next() - 1.5))),
      );
      if (found !== null && found.low <= 3 && found.high >= 3) held += 1;
    }
    return held / 300;
  };
  for (const n of [12, 40]) {
    expect(holds(n)).toBeGreaterThan(0.9);
    expect(holds(n)).toBeLessThan(0.99);
  }
});

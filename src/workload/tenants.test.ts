import { expect, test } from "vitest";
import { uniform } from "./random.ts";
import { chooserOf, zipf } from "./tenants.ts";

test("a chooser gives each item its share of the weight, and none without weight", () => {
  const choose = chooserOf([
    { item: "a", weight: 1 },
    { item: "never", weight: 0 },
    { item: "b", weight: 3 },
  ]);
  const seen: Record<string, number> = { a: 0, never: 0, b: 0 };
  for (let i = 0; i < 40_000; i++) seen[choose(uniform(1, i, 1))]! += 1;
  expect(seen.never).toBe(0);
  expect(seen.b! / seen.a!).toBeCloseTo(3, 0);
  expect(choose(0)).toBe("a");
  expect(choose(1 - 2 ** -53)).toBe("b");
});

test("the k-th customer is 1/k as busy as the first", () => {
  expect(zipf(["a", "b", "c", "d"]).map(({ weight }) => weight)).toEqual([1, 1 / 2, 1 / 3, 1 / 4]);
});

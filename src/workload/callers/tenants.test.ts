import { expect, test } from "vitest";
import { uniform } from "../random.ts";
import { bySize, chooserOf, evenly, largestShare, turnsOf } from "./rates.ts";

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

type Customer = { org: string; weight?: number };
const weighed: Customer[] = [{ org: "a", weight: 1 }, { org: "b", weight: 3 }, { org: "c" }];

test("turns without weights are strict; with weights each has its share after few calls", () => {
  const strict = turnsOf<Customer>([{ org: "a" }, { org: "b" }]);
  expect([0, 1, 2, 3].map((i) => strict(i).org)).toEqual(["a", "b", "a", "b"]);
  const turns = turnsOf(weighed);
  const seen: Record<string, number> = { a: 0, b: 0, c: 0 };
  for (let i = 0; i < 2000; i++) {
    seen[turns(i).org]! += 1;
    expect(Math.abs(seen.b! - 0.6 * (i + 1))).toBeLessThan(5);
  }
  expect(Math.abs(seen.a! - 400)).toBeLessThan(5);
});

test("stated weights take the place of made-up sizes", () => {
  expect(bySize(weighed).map(({ weight }) => weight)).toEqual([1, 3, 1]);
  expect(bySize<Customer>([{ org: "a" }, { org: "b" }]).map(({ weight }) => weight)).toEqual([1, 1 / Math.SQRT2]);
  expect(largestShare(bySize(weighed), ({ org }) => org)).toBeCloseTo(0.6);
  expect(largestShare(evenly<Customer>([{ org: "a" }, { org: "a" }, { org: "b" }]), ({ org }) => org)).toBeCloseTo(
    2 / 3,
  );
});

import { describe, expect, test } from "vitest";
import { pairwise } from "./rule.ts";

describe("pairwise", () => {
  const factors = { a: [1, 2, 3, 4], b: ["x", "y", "z"], c: [true, false], d: ["p", "q", "r"] };

  test("every pair of values of any two factors occurs in some row", () => {
    const rows: Record<string, unknown>[] = pairwise(factors);
    const names = Object.keys(factors) as (keyof typeof factors)[];
    for (const [i, one] of names.entries()) {
      for (const two of names.slice(i + 1)) {
        for (const x of factors[one]) {
          for (const y of factors[two]) {
            expect(
              rows.some((row) => row[one] === x && row[two] === y),
              `${one}=${x}, ${two}=${y}`,
            ).toBe(true);
          }
        }
      }
    }
  });

  test("it takes far fewer rows than the product, and the same ones each time", () => {
    expect(pairwise(factors).length).toBeLessThan(20);
    expect(pairwise(factors)).toEqual(pairwise(factors));
  });

  test("a single factor gives each of its values once", () => {
    expect(pairwise({ a: [1, 2, 3] }).map(({ a }) => a)).toEqual([1, 2, 3]);
  });
});

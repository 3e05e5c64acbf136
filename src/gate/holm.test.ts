import { describe, expect, test } from "vitest";
import { holm } from "./paired-comparison.ts";

describe("Holm's correction", () => {
  test("multiplies the smallest by their number, the next by one less, and never falls", () => {
    expect(holm([0.01, 0.04, 0.03, 0.005])).toEqual([0.03, 0.06, 0.06, 0.02]);
  });

  test("never says more than 1, and nothing of nothing", () => {
    expect(holm([0.6, 0.9])).toEqual([1, 1]);
    expect(holm([])).toEqual([]);
  });
});

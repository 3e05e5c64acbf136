import { describe, expect, test } from "vitest";
import { bits32, exponential, saltOf, uniform, whole } from "./random.ts";

describe("the counter-based generator", () => {
  test("the same seed, counter and salt give the same number, and each of the three changes it", () => {
    expect(bits32(1, 2, 3)).toBe(bits32(1, 2, 3));
    const around = [bits32(1, 2, 3), bits32(2, 2, 3), bits32(1, 3, 3), bits32(1, 2, 4), bits32(1, 2 + 2 ** 32, 3)];
    expect(new Set(around).size).toBe(around.length);
  });

  test("sixteen cells fill evenly, also for neighbouring seeds and for counters far apart", () => {
    for (const [seed, salt, stride] of [
      [0, 0, 1],
      [1, 0, 1],
      [42, saltOf("who"), 1],
      [42, 7, 1024],
      [-5, 7, 2 ** 20 + 1],
    ] as const) {
      const cells = new Array<number>(16).fill(0);
      const n = 64_000;
      for (let i = 0; i < n; i++) cells[whole(seed, i * stride, salt, 16)]! += 1;
      const expected = n / 16;
      const chiSquare = cells.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
      // 15 degrees of freedom: 44.3 is exceeded once in ten thousand.
      expect(chiSquare).toBeLessThan(44.3);
    }
  });

  test("one number says nothing about the next, nor about the same number under another salt", () => {
    const correlation = (other: (i: number) => number): number => {
      const n = 50_000;
      let sum = 0;
      for (let i = 0; i < n; i++) sum += (uniform(9, i, 1) - 0.5) * (other(i) - 0.5);
      return (sum / n) * 12;
    };
    expect(Math.abs(correlation((i) => uniform(9, i + 1, 1)))).toBeLessThan(0.02);
    expect(Math.abs(correlation((i) => uniform(9, i, 2)))).toBeLessThan(0.02);
    expect(Math.abs(correlation((i) => uniform(10, i, 1)))).toBeLessThan(0.02);
  });

  test("exponential gaps have mean 1 and variance 1", () => {
    const n = 100_000;
    let sum = 0;
    let squares = 0;
    for (let i = 0; i < n; i++) {
      const gap = exponential(3, i, 5);
      sum += gap;
      squares += gap * gap;
    }
    expect(sum / n).toBeCloseTo(1, 1);
    expect(squares / n - (sum / n) ** 2).toBeCloseTo(1, 1);
  });
});

import { expect, test } from "vitest";
import { highestHeld } from "./generators-bench.ts";

test.each([60, 900, 7_777, 90_000])(
  "a ceiling of %i is found within 6 %, from wherever the search begins",
  async (ceiling) => {
    for (const start of [60, 2_000, 150_000]) {
      const asked: number[] = [];
      const found = await highestHeld(start, async (rate) => {
        asked.push(rate);
        return rate <= ceiling;
      });
      expect(found).toBeLessThanOrEqual(ceiling + 1);
      expect(found).toBeGreaterThan(ceiling / 1.07);
      expect(asked.length).toBeLessThan(30);
    }
  },
);

test("what holds nothing has no ceiling, and what holds everything is not asked for ever", async () => {
  expect(await highestHeld(1_000, async () => false)).toBe(0);
  expect(await highestHeld(1_000, async () => true)).toBeGreaterThan(100_000);
});

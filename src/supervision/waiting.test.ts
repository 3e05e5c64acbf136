import { describe, expect, test } from "vitest";
import { eachAtOnce, pause } from "./waiting.ts";

describe("work on several items at once", () => {
  test("starts in order, at most so many at once, and keeps the order of the results", async () => {
    const [started, waits]: [number[], number[]] = [[], [9, 1, 5, 1, 3]];
    let [open, most] = [0, 0];
    const results = await eachAtOnce(2, waits, async (ms) => {
      started.push(ms);
      open += 1;
      most = Math.max(most, open);
      await pause(ms);
      open -= 1;
      return -ms;
    });
    expect([started, most, results]).toEqual([waits, 2, waits.map((ms) => -ms)]);
    expect(await eachAtOnce(2, [], async () => 1)).toEqual([]);
  });

  test("starts no further item after an error", async () => {
    const started: number[] = [];
    const working = eachAtOnce(2, [0, 1, 2, 3, 4, 5], async (n) => {
      started.push(n);
      await pause(1);
      if (n === 1) throw new Error("number 1");
    });
    await expect(working).rejects.toThrow("number 1");
    await pause(20);
    expect(started.length).toBeLessThan(4);
  });
});

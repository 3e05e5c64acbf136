import { describe, expect, test } from "vitest";
import { BASES_ERROR_US, clockBaseUs, createRunClock, eachAtOnce, pause, wallUs } from "./waiting.ts";

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

test("another process tells the time of a runner whose wall clock was five seconds ahead at its start", () => {
  const [clock, epochUs] = [createRunClock(wallUs(), clockBaseUs() + 5_000_000), wallUs()];
  const passedUs = clock.nowUs() - 5_000_000;
  expect(passedUs).toBeGreaterThanOrEqual(-BASES_ERROR_US);
  expect(passedUs).toBeLessThanOrEqual(wallUs() - epochUs + 100_000);
  expect(clock.errorUs).toBe(BASES_ERROR_US);
});

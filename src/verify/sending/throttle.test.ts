import { describe, expect, test } from "vitest";
import { createThrottle } from "./throttle.ts";

describe("the throttle", () => {
  test("twenty calls at 200 a second do not leave before nineteen gaps have passed", async () => {
    const throttle = createThrottle(200);
    const beganMs = performance.now();
    await Promise.all(Array.from({ length: 20 }, () => throttle.turn()));
    // A lower bound holds on a slow machine as well; 19 gaps of 5 ms, less what a timer may round.
    expect(performance.now() - beganMs).toBeGreaterThan(85);
  });

  test("a pause holds for those who already wait", async () => {
    const throttle = createThrottle(1000);
    await throttle.turn();
    const beganMs = performance.now();
    const waiting = Promise.all([throttle.turn(), throttle.turn()]);
    throttle.pause(80);
    await waiting;
    expect(performance.now() - beganMs).toBeGreaterThan(75);
  });

  test("the pace falls when a limit was met, never below one a second, and comes back", () => {
    const throttle = createThrottle(20);
    throttle.slower("rate");
    expect(throttle.ratePerS).toBeLessThan(20);
    for (let i = 0; i < 50; i++) throttle.slower("rate");
    expect(throttle.ratePerS).toBe(1);
    for (let i = 0; i < 500; i++) throttle.faster();
    expect(throttle.ratePerS).toBe(20);
  });

  test("a stop ends the waiting", async () => {
    const stop = new AbortController();
    const throttle = createThrottle(0.1, stop.signal);
    await throttle.turn();
    const waiting = throttle.turn();
    stop.abort(new Error("stopped by hand"));
    await expect(waiting).rejects.toThrow("stopped by hand");
  });
});

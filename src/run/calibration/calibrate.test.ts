import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Driver } from "../../drivers/driver.ts";
import { driveOpenLoop } from "../../drivers/open-loop/driver.ts";
import type { Calibration } from "../../history/run-document.ts";
import { REPOSITORY } from "../../supervision/run-folder.ts";
import { calibrate, calibrateDriver, heldRate, ratesOf } from "./calibrate.ts";
import { type CalibrationStub, startCalibrationStub } from "./stub.ts";

const k6 = process.env.FLOODGATE_K6 ?? join(REPOSITORY, ".tools", "k6");
const never = new AbortController().signal;
const of = (checks: readonly Calibration[], name: string): Calibration | undefined =>
  checks.find((check) => check.name.endsWith(`: ${name}`));

let stub: CalibrationStub;
beforeAll(async () => {
  stub = await startCalibrationStub();
});
afterAll(() => stub.end());

const openLoop = (driver: Driver): Promise<Calibration[]> =>
  calibrateDriver(stub, { name: "open-loop", driver, seed: 3, signal: never }, 100);

/** A driver that measures as ours does, and writes down something else. */
const spoilt =
  (how: "counts from sending" | "loses a call"): Driver =>
  (drive, beside) => {
    let n = 0;
    const onLine: typeof drive.onLine = (line) => {
      n += 1;
      if (how === "loses a call" && n === 50) return;
      drive.onLine(
        how === "loses a call"
          ? line
          : { ...line, intended_us: line.done_us - Math.min(25_000, line.done_us - line.sent_us) },
      );
    };
    return driveOpenLoop({ ...drive, onLine }, beside);
  };

// Whether a check about time holds here and now is for the machine to say; what does not depend on it is judged.
describe("the calibration over real sockets", () => {
  test("sees every call of the open-loop driver once, a real stall and the delays of the stub", async () => {
    const checks = await openLoop(driveOpenLoop);
    expect(of(checks, "calls, one to one")?.verdict).toBe("pass");
    expect(of(checks, "known delay, p50")?.truth).toBeGreaterThanOrEqual(19);
    expect(of(checks, "known stall, p90")?.truth).toBeGreaterThan(60);
    expect(of(checks, "known stall, p99")?.measured).toBeGreaterThan(100);
    expect(of(checks, "null server, rate held")?.truth).toBe(ratesOf(100).ceilingPerS);
    expect(checks.filter(({ measured }) => !Number.isFinite(measured))).toEqual([]);
  });

  test("a stub that has ended is named in the error", async () => {
    const ended = await startCalibrationStub();
    await ended.end();
    await expect(ended.report()).rejects.toThrow(/^the stub of the calibration: it ended \(\d+\)$/);
  });

  test.each(["a line each", "folded"] as const)("counts at a null server what a mode holds: %s", async (mode) => {
    const of = { name: "open-loop" as const, driver: driveOpenLoop, seed: 3, signal: never };
    const ceiling = { mode, perS: 200, forS: 1 };
    const held = await heldRate(stub, of, ceiling);
    expect(held).toMatchObject({ name: `open-loop: null server, ${mode}, rate held`, truth: 200 });
    expect(held.measured).toBeGreaterThan(20);
    expect(held.measured).toBeLessThanOrEqual(200);
    // What is not written down was not held.
    const deaf: Driver = (drive) =>
      driveOpenLoop({ ...drive, onLine: () => undefined, ...(drive.onFold && { onFold: () => undefined }) });
    expect((await heldRate(stub, { ...of, driver: deaf }, ceiling)).measured).toBe(0);
  });

  test("a driver that leaves out what a stall kept waiting fails", async () => {
    const checks = await openLoop(spoilt("counts from sending"));
    expect(of(checks, "known stall, p90")?.verdict).toBe("fail");
    expect(of(checks, "known stall, p99")?.verdict).toBe("fail");
  });

  test("a driver that loses one call of some hundred fails", async () => {
    expect(of(await openLoop(spoilt("loses a call")), "calls, one to one")?.verdict).toBe("fail");
  });

  test.skipIf(!existsSync(k6))("k6 is calibrated in the same way, at the rate of the run", async () => {
    const peaks = new Map([["k6", 100]] as const);
    const checks = await calibrate({ peaks }, { seed: 3, k6Path: async () => k6, signal: never });
    expect(checks.length).toBeGreaterThan(8);
    expect(of(checks, "known delay, p50")?.measured).toBeGreaterThanOrEqual(19);
    expect(of(checks, "known stall, p99")?.measured).toBeGreaterThan(100);
  });

  test("a driver that cannot be had is a check that was not made", async () => {
    const peaks = new Map([["k6", 10]] as const);
    const k6Path = () => Promise.reject(new Error("there is no Go"));
    const [check, ...others] = await calibrate({ peaks }, { seed: 1, k6Path, signal: never });
    expect(check).toMatchObject({ name: "k6: could be calibrated (there is no Go)", verdict: "inconclusive" });
    expect(others).toEqual([]);
  });
});

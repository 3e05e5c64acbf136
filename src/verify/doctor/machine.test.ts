import { describe, expect, test } from "vitest";
import { judgeMachine, type MachineReadings, readMachine } from "./this-machine.ts";

const good: MachineReadings = {
  cores: 8,
  cpu: "Some CPU",
  load1: 0.2,
  lagMs: { p99: 0.4, max: 1.1 },
  memoryBytes: 8 * 2 ** 30,
  portRange: "32768\t60999\n",
  limits:
    "Limit  Soft Limit  Hard Limit  Units\nMax open files            1048576              1048576              files\n",
  somaxconn: "4096\n",
  disk: [{ folder: "/tmp", freeBytes: 80 * 2 ** 30, unusable: undefined }],
};

const statesOf = (readings: MachineReadings): Record<string, string> =>
  Object.fromEntries(judgeMachine(readings).findings.map(({ name, state }) => [name, state]));

describe("what a machine can measure", () => {
  test("a good one has nothing to do", () => {
    expect(new Set(Object.values(statesOf(good)))).toEqual(new Set(["ok"]));
  });

  test.each<[string, Partial<MachineReadings>]>([
    ["cores", { cores: 1, load1: 0 }],
    ["load", { load1: 7 }],
    ["memory", { memoryBytes: 512 * 2 ** 20 }],
    ["timer", { lagMs: { p99: 12, max: 40 } }],
    ["ports", { portRange: "60000 60999" }],
    ["descriptors", { limits: "Max open files            1024                 4096                 files" }],
    ["accept queue", { somaxconn: "128" }],
    ["disk", { disk: [{ folder: "/tmp", freeBytes: 2 ** 20, unusable: undefined }] }],
  ])("%s alone is warned of, with what to do", (name, spoilt) => {
    const { findings } = judgeMachine({ ...good, ...spoilt });
    expect(findings.filter(({ state }) => state !== "ok")).toEqual([expect.objectContaining({ name, state: "warn" })]);
    expect(findings.find((one) => one.name === name)?.todo).toMatch(/\w/);
  });

  test("what the system does not say is unknown and not good", () => {
    const states = statesOf({ ...good, portRange: null, limits: null, somaxconn: null });
    expect(states).toMatchObject({ ports: "info", descriptors: "info", "accept queue": "info" });
  });

  test("a place for run folders that cannot be written is warned of, with what to do", () => {
    const disk = [
      { folder: "/clone", freeBytes: 80 * 2 ** 30, unusable: "the file system there is read-only (EROFS)" },
    ];
    const one = judgeMachine({ ...good, disk }).findings.find(({ name }) => name === "disk");
    expect(one).toMatchObject({
      state: "warn",
      text: expect.stringContaining("read-only"),
      todo: expect.stringContaining("--out"),
    });
  });

  test("this machine can be read", async () => {
    const readings = await readMachine([import.meta.dirname, "/no/such/folder"]);
    expect(readings.cores).toBeGreaterThan(0);
    expect(readings.lagMs.max).toBeGreaterThanOrEqual(readings.lagMs.p99);
    expect(readings.disk.map(({ freeBytes }) => freeBytes === null)).toEqual([false, true]);
  });
});

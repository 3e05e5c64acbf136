import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { examine, NotJudged } from "../laws/examine.ts";
import { againIfStalled, unlessStalled } from "./stalls.ts";

/** Keeps the process from running, as a busy machine does. */
const standStill = async (ms: number): Promise<void> => {
  await new Promise((resolve) => setTimeout(resolve, 30));
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs);
  await new Promise((resolve) => setTimeout(resolve, 30));
};
const breaks = async (): Promise<void> => {
  throw new Error("broken");
};

describe("a case that breaks", () => {
  test("is broken while the process ran, whatever was tried before", async () => {
    await expect(unlessStalled(breaks)).rejects.toThrow("broken");
    await expect(againIfStalled(breaks)).rejects.toThrow(/^broken$/);
  });

  test("is set aside in a property, and not passed, when the process stood still", async () => {
    const stalling = fc.asyncProperty(fc.nat(), () => unlessStalled(() => standStill(300).then(breaks)));
    await expect(examine(stalling, { seed: 1, runs: 1, path: "0" })).rejects.toThrow(NotJudged);
  });

  test("is tried again when the process stood still, and told when it never runs", async () => {
    let attempts = 0;
    await againIfStalled(async () => {
      attempts += 1;
      if (attempts === 1) await standStill(300).then(breaks);
    });
    expect(attempts).toBe(2);
    await expect(againIfStalled(() => standStill(300).then(breaks))).rejects.toThrow("too busy: broken");
  });
});

/** The laws' own frame, judged before it judges: it must find a planted fault, and its replay line must lead back to it. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { examine } from "./law.ts";
import { type Budget, readBudget, runsOf } from "./seed.ts";

const budget: Budget = { seed: 7, profile: "quick", runs: 200 };
const planted = () => fc.property(fc.integer({ min: 0, max: 10_000 }), (n) => n < 1_000);

describe("examine", () => {
  test("acquits a law that holds", async () => {
    expect(
      await examine(
        "holds",
        fc.property(fc.nat(), (n) => n >= 0),
        undefined,
        budget,
      ),
    ).toBeNull();
  });

  test("finds a planted fault, and says the smallest case, the seed and the replay line last", async () => {
    const finding = await examine("it's small", planted(), undefined, budget);
    expect(finding?.message).toContain("Counterexample: [1000]");
    expect(finding?.message.trimEnd().split("\n").at(-1)).toBe(
      `Replay: npm run properties -- --seed 7 --path ${finding?.path} --only 'it'\\''s small'`,
    );
  });

  test("finds the same case twice from one seed", async () => {
    const [one, two] = await Promise.all([1, 2].map(() => examine("x", planted(), undefined, budget)));
    expect(one).toEqual(two);
  });

  test("goes straight to the smallest case from its path", async () => {
    const finding = await examine("x", planted(), undefined, budget);
    let cases = 0;
    const counted = fc.property(fc.integer({ min: 0, max: 10_000 }), (n) => {
      cases += 1;
      return n < 1_000;
    });
    const again = await examine("x", counted, undefined, { ...budget, path: finding?.path ?? "" });
    expect(again?.message).toContain("Counterexample: [1000]");
    expect(cases).toBe(1);
  });

  test("does not call a law kept when it drew no case", async () => {
    const never = fc.property(fc.nat(), () => fc.pre(false));
    const finding = await examine("vacuous", never, undefined, budget);
    expect(finding?.message).toContain("pre-condition");
  });
});

describe("the budget", () => {
  test.each([
    ["the quick profile by default", {}, 3],
    ["the nightly profile when asked", { FLOODGATE_PROPERTY_PROFILE: "nightly" }, 50],
    [
      "the number of runs above any profile",
      { FLOODGATE_PROPERTY_PROFILE: "nightly", FLOODGATE_PROPERTY_RUNS: "9" },
      9,
    ],
  ])("takes %s", (_, env, runs) => {
    expect(runsOf(readBudget(env), { quick: 3, nightly: 50 })).toBe(runs);
  });

  test.each([
    ["FLOODGATE_PROPERTY_SEED", "x"],
    ["FLOODGATE_PROPERTY_RUNS", "0"],
    ["FLOODGATE_PROPERTY_PROFILE", "fast"],
  ])("refuses a %s that it cannot read", (name, value) => {
    expect(() => readBudget({ [name]: value })).toThrow(name);
  });
});

test("the command refuses a path without the law that it belongs to", async () => {
  const script = new URL("../replay.ts", import.meta.url).pathname;
  const run = promisify(execFile)(process.execPath, [script, "--seed", "1", "--path", "0"]);
  await expect(run).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining("--only") });
});

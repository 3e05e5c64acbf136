/** The laws' own frame, judged before it judges: it must find a planted fault, and its replay line must lead back to it. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { examine, NoSuchCase } from "./examine.ts";
import { readBudget, runsOf, seedOfLaw } from "./seed.ts";

const draw = { seed: 7, runs: 200 };
const planted = () => fc.property(fc.integer({ min: 0, max: 10_000 }), (n) => n < 1_000);

describe("examine", () => {
  test("acquits a law that holds", async () => {
    const holds = fc.property(fc.nat(), (n) => n >= 0);
    expect(await examine(holds, draw)).toBeNull();
  });

  test("finds a planted fault, and says the smallest case and why", async () => {
    const finding = await examine(planted(), draw);
    expect(finding?.message).toContain("Counterexample: [1000]");
    expect(finding?.message).toContain("seed: 7");
    expect(finding?.path).toMatch(/^\d+(:\d+)*$/);
  });

  test("finds the same case twice from one seed", async () => {
    const [one, two] = await Promise.all([1, 2].map(() => examine(planted(), draw)));
    expect(one).toEqual(two);
  });

  test("goes straight to the smallest case from its path, and no further", async () => {
    const finding = await examine(planted(), draw);
    const counting = (holds: (n: number) => boolean) => {
      const cases: number[] = [];
      const property = fc.property(fc.integer({ min: 0, max: 10_000 }), (n) => {
        cases.push(n);
        return holds(n);
      });
      return { cases, property };
    };
    const path = finding?.path ?? "";
    const broken = counting((n) => n < 1_000);
    expect((await examine(broken.property, { ...draw, path }))?.message).toContain("Counterexample: [1000]");
    expect(broken.cases).toEqual([1000]);
    const mended = counting(() => true);
    expect(await examine(mended.property, { ...draw, path })).toBeNull();
    expect(mended.cases).toEqual([1000]);
  });

  test.each(["0:9999", "0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0"])(
    "says that the path %s leads nowhere",
    async (path) => {
      await expect(examine(planted(), { ...draw, path })).rejects.toThrow(NoSuchCase);
    },
  );

  test("does not call a law kept when it drew no case", async () => {
    const never = fc.property(fc.nat(), () => fc.pre(false));
    const finding = await examine(never, draw);
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

test("no two laws share a name, or draw from one seed", () => {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".test.ts"));
  const names = files.flatMap((file) =>
    [...readFileSync(`${root}${file}`, "utf8").matchAll(/^\s*law\(\s*("(?:[^"\\]|\\.)*")/gm)].map(
      (found) => JSON.parse(found[1] as string) as string,
    ),
  );
  expect(names.length).toBeGreaterThan(100);
  expect(new Set(names).size).toBe(names.length);
  for (const base of [0, 20_261, -5]) {
    const seeds = names.map((name) => seedOfLaw(base, name));
    expect(new Set(seeds).size).toBe(names.length);
    // fast-check keeps 32 bits of a seed.
    expect(seeds.filter((seed) => (seed | 0) !== seed)).toEqual([]);
  }
});

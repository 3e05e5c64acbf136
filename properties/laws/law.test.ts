/** The laws' own frame, judged before it judges: it must find a planted fault, and its replay line must lead back to it. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { examine, NoSuchCase } from "./examine.ts";
import { ALL_LAWS, LAWS_MAX, lawNumbered, numberOfLaw } from "./law-numbers.ts";
import { isSeedOfLaw, lawOfSeed, readBudget, runsOf, seedOfLaw } from "./seed.ts";

const draw = { seed: 7, runs: 200 };
const planted = () => fc.property(fc.integer({ min: 0, max: 10_000 }), (n) => n < 1_000);

describe("examine", () => {
  test("acquits a law that holds", async () => {
    const holds = fc.property(fc.nat(), (n) => n >= 0);
    expect(await examine(holds, draw)).toBeNull();
  });

  test("finds a planted fault, and says the smallest case, the seed and the replay line last", async () => {
    const finding = await examine(planted(), draw);
    expect(finding?.message).toContain("Counterexample: [1000]");
    expect(finding?.message.trimEnd().split("\n").at(-1)).toBe(
      `Replay: npm run properties -- --seed 7 --path ${finding?.path}`,
    );
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

describe("the number of a law", () => {
  const root = fileURLToPath(new URL("..", import.meta.url));

  test("is its own, three digits at most, and so is its name", () => {
    const numbers = ALL_LAWS.map(({ number }) => number);
    expect(new Set(numbers).size).toBe(ALL_LAWS.length);
    expect(new Set(ALL_LAWS.map(({ name }) => name)).size).toBe(ALL_LAWS.length);
    expect(Math.min(...numbers)).toBeGreaterThan(0);
    expect(Math.max(...numbers)).toBeLessThan(LAWS_MAX);
  });

  test("stays for ever: seeds that were printed once still lead to the same law", () => {
    const anchors: [number, string, string][] = [
      [1, "order.property.test.ts", "P1 the first failing check decides"],
      [22, "quota.property.test.ts", "P6 exactly the admitted mints are charged"],
      [39, "real-server.property.test.ts", "the real server answers as the model does"],
      [54, "rate-limit.property.test.ts", "in any window of w seconds"],
      [78, "schedules.property.test.ts", "a profile scaled up"],
      [93, "stream-readers.property.test.ts", "P10 the Go reader and eventsource-parser"],
    ];
    for (const [number, file, name] of anchors) {
      expect([number, lawNumbered(number)?.file]).toEqual([number, file]);
      expect(lawNumbered(number)?.name).toContain(name);
    }
  });

  test("leads to the file where the law stands, and every law of a file has one", () => {
    for (const file of new Set(ALL_LAWS.map((law) => law.file))) {
      const text = readFileSync(`${root}${file}`, "utf8");
      const registered = [...text.matchAll(/\blaw\(\s*("(?:[^"\\]|\\.)*")/g)].map((found) =>
        JSON.parse(found[1] as string),
      );
      const numbered = ALL_LAWS.filter((law) => law.file === file).map(({ name }) => name);
      expect([file, registered.sort()]).toEqual([file, numbered.sort()]);
    }
    const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".test.ts"));
    const without = files.filter(
      (file) => /^\s*law\(/m.test(readFileSync(`${root}${file}`, "utf8")) && !ALL_LAWS.some((law) => law.file === file),
    );
    expect(without).toEqual([]);
  });

  test("is asked for by a law that has none", () => {
    expect(() => numberOfLaw("no such law")).toThrow("give it one in laws/law-numbers.ts");
  });

  test.each([0, 1, 20_261, 123_456_789, Number.MAX_SAFE_INTEGER, -5])(
    "can be read from its seed, from base %d",
    (base) => {
      for (const number of [1, 93, 999]) {
        const seed = seedOfLaw(base, number);
        expect(lawOfSeed(seed)).toBe(number);
        expect(isSeedOfLaw(seed)).toBe(true);
        // fast-check keeps 32 bits of a seed.
        expect(seed | 0).toBe(seed);
      }
    },
  );
});

import { Command } from "commander";
import { describe, expect, test } from "vitest";
import { each, positive, refuseRepeats, seconds, upTo } from "./options.ts";

describe("a number of an option", () => {
  test.each(["1e9", "1000001"])("%j is too much for a rate", (text) => {
    expect(() => positive(text)).toThrow("at most 1000000");
  });

  test.each(["0", "1000h", "1e9s", "-1s", "soon"])("%j is no length", (text) => {
    expect(() => seconds(text)).toThrow("a length such as 15s or 2m");
  });

  test.each(["", " ", "0", "-1", "many", "Infinity", "1e999", "NaN"])("%j is no number above 0", (text) => {
    expect(() => positive(text)).toThrow(`expected a number above 0, got "${text}".`);
    expect(() => upTo(10)(text)).toThrow(`expected a number above 0, got "${text}".`);
  });

  test("a finite number above the most is refused with the most", () => {
    expect(() => upTo(10)("11")).toThrow('expected at most 10, got "11".');
    expect(upTo(10)("10")).toBe(10);
    expect(upTo(10, true)("0")).toBe(0);
  });
});

describe("an option that is given twice", () => {
  const parsed = (...words: string[]) => {
    const command = new Command("load")
      .option("--seed <n>", "", Number)
      .option("--profile <name>", "", each)
      .option("--only <id...>")
      .option("--quiet")
      .exitOverride()
      .configureOutput({ writeErr: () => undefined });
    refuseRepeats(command);
    return command.parse(words, { from: "user" }).opts();
  };

  test("is refused where it has one value, the same value too", () => {
    for (const second of ["2", "1"]) {
      expect(() => parsed("--seed", "1", "--seed", second)).toThrow(/was given already, as 1; give it once/);
    }
  });

  test("adds to a list, and says no more than once what has no value", () => {
    const words = ["--profile", "a", "--profile", "b", "--only", "x", "y", "--only", "z", "--quiet", "--quiet"];
    expect(parsed(...words, "--seed", "1")).toEqual({
      ...{ profile: ["a", "b"], only: ["x", "y", "z"] },
      ...{ quiet: true, seed: 1 },
    });
  });
});

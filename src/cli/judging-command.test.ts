import { Command } from "commander";
import { expect, test, vi } from "vitest";
import { judgingCommand } from "./judging-command.ts";

/** The command that would repeat a run, of a command that ends as soon as it is known. */
const replayOf = async (...words: string[]): Promise<string> => {
  const command = judgingCommand(
    "load",
    {
      about: "",
      operands: [
        ["[scenario]", "", "smoke"],
        ["[rest...]", ""],
      ],
      options: [
        ["--rate <n>", "", Number],
        ["--only <id...>", ""],
        ["--slo <text>", ""],
        ["--arrivals <how>", "", undefined, "poisson"],
        ["--short", ""],
      ],
    },
    () => ({ play: (common) => Promise.reject(new Error(common.replay)) }),
  );
  const root = new Command("floodgate").addCommand(command);
  return root.parseAsync(words, { from: "user" }).then(
    () => "",
    (error: Error) => error.message,
  );
};

test.each([
  [["load", "--seed", "5"], "load smoke --seed 5"],
  [["load", "reads", "--short", "--rate", "5", "--seed", "5"], "load reads --rate 5 --short --seed 5"],
  [["load", "--only", "a", "b", "--seed", "5"], "load smoke --only a --only b --seed 5"],
  [["load", "--slo", "p99<=1s", "--seed", "5"], "load smoke --slo 'p99<=1s' --seed 5"],
  [["load", "it's", "--seed", "5"], String.raw`load 'it'\''s' --seed 5`],
  [
    ["load", "--target", "t.json", "--i-own", "a.example", "b.example", "--seed", "5"],
    "load smoke --target t.json --i-own a.example --i-own b.example --seed 5",
  ],
  [["load", "--json", "--quiet", "--heal", "--out", "x", "--seed", "5"], "load smoke --seed 5"],
  [["load", "--short", "--seed", "5", "--", "--vus", "5"], "load --short --seed 5 -- --vus 5"],
])("%j is repeated by what was typed, without what only says where and how it is reported", async (typed, replay) => {
  expect(await replayOf(...typed)).toBe(`npx floodgate ${replay}`);
});

test("a target file that a CI script removes at the end is named as it would be called here", async () => {
  vi.stubEnv("FLOODGATE_PRIVATE_FOLDER", "/tmp/tmp.abc");
  const typed = (path: string): Promise<string> => replayOf("load", "--target", path, "--seed", "5");
  expect(await typed("/tmp/tmp.abc/target.json")).toBe("npx floodgate load smoke --target target.json --seed 5");
  expect(await typed("/tmp/tmp.abcd/t.json")).toContain("--target /tmp/tmp.abcd/t.json");
  vi.unstubAllEnvs();
});

test("without --seed the one that was drawn is named", async () => {
  expect(await replayOf("load")).toMatch(/^npx floodgate load smoke --seed \d+$/);
});

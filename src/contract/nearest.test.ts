import { expect, test } from "vitest";
import { nearest, noSuch } from "./nearest.ts";

const NAMES = ["smoke", "soak", "chat-past-capacity", "noisy-neighbour"];

test.each([
  ["smok", "smoke"],
  ["somke", "smoke"],
  ["chat-past-capacty", "chat-past-capacity"],
  ["NOISY-NEIGHBOR", "noisy-neighbour"],
  ["sok", "soak"],
  ["verify", null],
  ["", null],
  ["x".repeat(10_000), null],
])("%s is taken for %s", (word, meant) => {
  expect(nearest(word, NAMES)).toBe(meant);
});

test("a message names the suggestion, or lists what there is", () => {
  expect(noSuch("suite", "smok", NAMES, "expected one of …")).toBe('there is no suite "smok"; did you mean smoke?');
  expect(noSuch("suite", "verify", NAMES, "expected one of …")).toBe('there is no suite "verify"; expected one of …');
  expect(noSuch("suite", "noisy", NAMES, "…")).toBe('there is no suite "noisy"; did you mean noisy-neighbour?');
});

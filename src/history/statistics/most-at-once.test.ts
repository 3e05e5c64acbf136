import { expect, test } from "vitest";
import { mostAtOnce } from "./statistics.ts";

test.each([
  ["nothing", [], 0],
  [
    "one after the other",
    [
      [0, 1],
      [1, 2],
      [2, 3],
    ],
    1,
  ],
  [
    "some beside others",
    [
      [0, 10],
      [1, 2],
      [3, 9],
      [4, 5],
      [9, 12],
    ],
    3,
  ],
  [
    "all",
    [
      [0, 3],
      [1, 3],
      [2, 3],
    ],
    3,
  ],
] as const)("%s", (_, spans, most) => {
  expect(mostAtOnce(spans)).toBe(most);
});

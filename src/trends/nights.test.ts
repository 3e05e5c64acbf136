import { expect, test } from "vitest";
import { nightJson } from "../report/formats.ts";
import { madeRun } from "../report/made-run.fixture.ts";
import { madeNight } from "./nights.fixture.ts";
import { monthFile, type Night, readNights, whyNoNight } from "./nights.ts";

const read = (...lines: string[]) => readNights([{ name: "2026-09.ndjson", text: lines.join("\n") }]);
const line = (day: number, over: Partial<Night> = {}): string => JSON.stringify(madeNight(day, over));

test("what a run writes is a night", () => {
  const night = JSON.parse(nightJson(madeRun()));
  expect(whyNoNight(night)).toBeNull();
  expect(monthFile(night)).toBe("2026-11.ndjson");
});

test("nights come in order of time, and a run counts once, as it was added first", () => {
  const { nights, unread } = read(line(2), line(1), "", line(2, { verdict: "fail" }));
  expect(nights.map(({ seed, verdict }) => [seed, verdict])).toEqual([
    [1, "pass"],
    [2, "pass"],
  ]);
  expect(unread).toEqual([]);
});

test.each([
  ["a line that was cut off", line(2).slice(0, 200)],
  ["a line of something else", '{"schema":"floodgate/run@1"}'],
  ["a list", "[1]"],
  ["a number", "7"],
  ["a night without a moment", line(2, { started_at: "yesterday" })],
  ["a night whose figures are texts", line(2, { measurements: { "a/b": ["1"] } as never })],
  ["a commit that would be more than one word of a command", line(2, { commit: "a; rm -rf ." })],
])("%s is named by its number, and the nights around it are read", (_what, text) => {
  const { nights, unread } = read(line(1), text, line(3));
  expect(nights.map(({ seed }) => seed)).toEqual([1, 3]);
  expect(unread).toHaveLength(1);
  expect(unread[0]).toContain("2026-09.ndjson, line 2");
});

import { expect, test } from "vitest";
import type { Line } from "./line.ts";
import { inTimeOrder, Lateness } from "./time-order.ts";

const CALLS_PER_S = 100;

/** Calls that are sent evenly and take between nothing and two seconds, as a history has them: when they have ended. */
function* history(calls: number): Generator<Line> {
  const lastsUs = (n: number): number => ((n * 7919) % 2_000) * 1_000;
  const sentUs = (n: number): number => (n * 1e6) / CALLS_PER_S;
  const ended = Array.from({ length: calls }, (_, n) => ({ n, atUs: sentUs(n) + lastsUs(n) }));
  ended.sort((a, b) => a.atUs - b.atUs);
  for (const { n } of ended) yield { type: "mark", stage: "s", name: `${n}`, at_us: sentUs(n) };
}

const latenessOf = (lines: Iterable<Line>): number => {
  const late = new Lateness();
  for (const line of lines) late.see(line);
  return late.us;
};

/** How many lines were read and not yet handed on, at most. */
const mostHeld = (calls: number): number => {
  let [read, given, most] = [0, 0, 0];
  const counted = function* (): Generator<Line> {
    for (const line of history(calls)) {
      read += 1;
      most = Math.max(most, read - given);
      yield line;
    }
  };
  for (const _ of inTimeOrder(counted(), latenessOf(history(calls)))) given += 1;
  expect(given).toBe(calls);
  return most;
};

test("lines that came when their calls had ended are put in the order in which these were sent", () => {
  const names = [...inTimeOrder(history(2_000), latenessOf(history(2_000)))].map((line) => "name" in line && line.name);
  expect(names).toEqual(Array.from({ length: 2_000 }, (_, n) => `${n}`));
});

test("lines of one moment stay in the order in which they came", () => {
  const lines = ["a", "b", "c"].map((name): Line => ({ type: "mark", stage: "s", name, at_us: 5 }));
  expect([...inTimeOrder(lines, 0)]).toEqual(lines);
  expect(
    [...inTimeOrder([...lines, { ...lines[0], at_us: 4 } as Line], 1)].map((line) => "at_us" in line && line.at_us),
  ).toEqual([4, 5, 5, 5]);
});

test("a history twenty times as long holds no more lines at once", () => {
  expect(mostHeld(40_000)).toBeLessThanOrEqual(mostHeld(2_000) + 1);
});

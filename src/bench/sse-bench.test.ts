import { describe, expect, test } from "vitest";
import type { CallLine } from "../history/line.ts";
import { streamEvents } from "./sse-bench.ts";

/** A stream whose first event comes a gap after its head. */
const stream = (startUs: number, gapsUs: number[], more: Partial<CallLine> = {}): CallLine => {
  const firstEventUs = startUs + 20_000;
  const doneUs = gapsUs.reduce((at, gap) => at + gap, firstEventUs);
  const times = { first_us: startUs, first_event_us: firstEventUs, done_us: doneUs, gaps_us: gapsUs };
  return { type: "call", ended: "done", ...times, ...more } as CallLine;
};

const even = (n: number, gapUs = 20_000): number[] => Array.from({ length: n }, () => gapUs);
const at = { gapMs: 20, fromUs: 1_000_000, toUs: 2_000_000 };

describe("events of streams in a history", () => {
  test("those between two moments are counted, whichever stream they are of", () => {
    const lines = [stream(0, even(200)), stream(500_000, even(50)), stream(1_900_000, even(50))];
    expect(streamEvents(lines, at)).toMatchObject({ perS: 50 + 27 + 4, held: 2, done: 3, other: 0 });
  });

  test("a gap that is too short is as wrong as one that is too long", () => {
    const gaps = [...even(196), 50_000, 1_000, 1_000, 28_000];
    expect(streamEvents([stream(0, gaps)], at).gapErrorMsP99).toBeCloseTo(19, 1);
    expect(streamEvents([stream(0, even(200, 20_030))], at).gapErrorMsP99).toBeCloseTo(0.03, 5);
    expect(streamEvents([stream(0, even(200, 5_000_000))], at).gapErrorMsP99).toBeGreaterThan(999);
  });

  test("a stream without an event was none, and what did not end well is told apart", () => {
    const refused = { first_us: 5, done_us: 6, ended: "refused" } as CallLine;
    const seen = streamEvents([refused, stream(0, even(10), { ended: "truncated" })], at);
    expect(seen).toMatchObject({ perS: 0, held: 1, done: 0, other: 2 });
    expect(streamEvents([], at).gapErrorMsP99).toBeNaN();
  });
});

import { describe, expect, test } from "vitest";
import { callFold, NEIGHBOURS } from "./call-fold.ts";
import type { CallLine, FoldLine, Line } from "./line.ts";
import { measureStage } from "./measure-stage.fixture.ts";
import { outcomesOf } from "./outcomes-of.fixture.ts";
import { seriesFold } from "./series.ts";
import { sumOf } from "./statistics/statistics.ts";

const OUTCOMES = ["200", "200", "201", "200", "429 rate_limited", "200", "indeterminate"] as const;

const call = (i: number, over: Partial<CallLine> = {}): CallLine => {
  const dueUs = 3_300_000 + i * 7_000;
  const doneUs = dueUs + 900 + ((i * 7919) % 40_000);
  const isStream = i % 5 === 0;
  return {
    type: "call",
    id: `r.s.c-${i}`,
    stage: "s",
    driver: "open-loop",
    org: `org_${i % 3}`,
    route: isStream ? "chat.control" : "design.styles",
    intended_us: dueUs,
    started_us: dueUs + (i % 11) * 30,
    connect_us: 0,
    sent_us: dueUs + 400,
    first_us: dueUs + 700,
    done_us: doneUs,
    outcome: OUTCOMES[i % OUTCOMES.length] as string,
    attempt: i % 13 === 0 ? 1 : 0,
    clock_error_us: 20,
    ...(i % 17 === 0 ? { unscheduled: "mint" as const } : {}),
    ...(isStream ? { ended: "done", events: 3, first_event_us: dueUs + 700, gaps_us: [100, 200_000] } : {}),
    ...over,
  };
};

const many = (n: number): CallLine[] => Array.from({ length: n }, (_, i) => call(i));

const foldedBy = (calls: readonly CallLine[], looksWrong: (call: CallLine) => boolean = () => false): Line[] => {
  const lines: Line[] = [];
  const fold = callFold({ emit: (line) => lines.push(line), looksWrong });
  for (const line of calls.toSorted((a, b) => a.done_us - b.done_us)) fold.see(line);
  fold.end();
  return lines;
};
const foldsOf = (lines: readonly Line[]): FoldLine[] => lines.filter((line): line is FoldLine => line.type === "fold");
const wholeOf = (lines: readonly Line[]): string[] => lines.flatMap((line) => (line.type === "call" ? [line.id] : []));

describe("folded calls", () => {
  test("add up to the calls that were folded, and every other call stays whole", () => {
    const calls = many(3_000);
    const lines = foldedBy(calls);
    expect(wholeOf(lines).sort()).toEqual(
      calls
        .filter(({ outcome }) => !outcome.startsWith("2"))
        .map(({ id }) => id)
        .sort(),
    );
    const folds = foldsOf(lines);
    const plain = calls.length - wholeOf(lines).length;
    for (const key of ["offered", "started", "ended"] as const) expect(sumOf(folds.map((f) => f[key]))).toBe(plain);
    expect(sumOf(folds.flatMap(({ kinds }) => kinds.map(({ n }) => n)))).toBe(plain);
    expect(lines.length).toBeLessThan(calls.length / 2);
  });

  test("are measured as the calls themselves: counts to the one, quantiles to the same bucket", () => {
    const calls = many(3_000);
    const [whole, folded] = [calls, foldedBy(calls)].map((lines) =>
      measureStage(lines, { stage: "s", offeredRatePerS: 142, scheduledMs: 21_000 }),
    );
    expect(folded!.summary).toEqual(whole!.summary);
    const without = ({ measurements }: typeof whole & object) =>
      measurements.map(({ low: _low, high: _high, ...figures }) => figures);
    expect(without(folded!)).toEqual(without(whole!));
    // What is known by the second alone has wider intervals, and never none where calls are many.
    expect(folded!.measurements.find(({ name }) => name === "latency_ms_p50")?.low).not.toBeNull();
  });

  test("make a series that adds up to what was measured", () => {
    const calls = many(3_000);
    const fold = seriesFold();
    for (const line of foldedBy(calls)) fold.see(line);
    const series = fold.end().stages[0]!;
    expect(series.bin_ms).toBe(1_000);
    expect(outcomesOf(series)).toEqual(measureStage(calls, { stage: "s" }).summary.by_outcome);
    for (const key of ["offered", "started", "ended"] as const) expect(sumOf(series[key])).toBe(calls.length);
    expect(sumOf(Object.values(series.by_organization).flatMap(({ offered }) => offered))).toBe(calls.length);
  });

  test("two folds of the same calls in parts say what one says", () => {
    const calls = many(1_000);
    const parts = [...foldedBy(calls.slice(0, 400)), ...foldedBy(calls.slice(400))];
    expect(measureStage(parts, { stage: "s" }).summary).toEqual(measureStage(foldedBy(calls), { stage: "s" }).summary);
  });

  test("seconds are written as they settle, also after the calls so far were asked for", () => {
    const lines: Line[] = [];
    const fold = callFold({ emit: (line) => lines.push(line), looksWrong: () => false });
    const calls = many(3_000).toSorted((a, b) => a.done_us - b.done_us);
    for (const line of calls.slice(0, 400)) fold.see(line);
    fold.end();
    const atFirst = foldsOf(lines).length;
    expect(atFirst).toBeGreaterThan(0);
    for (const line of calls.slice(400)) fold.see(line);
    expect(foldsOf(lines).length).toBeGreaterThan(atFirst + 20);
  });

  test("a call that looks wrong is kept with the calls that ended around it", () => {
    const calls = Array.from({ length: 1_000 }, (_, i) =>
      call(i, { outcome: i === 500 ? "201" : "200", done_us: 4_000_000 + i * 1_000, unscheduled: "step", attempt: 0 }),
    );
    const whole = wholeOf(foldedBy(calls, ({ outcome }) => outcome === "201"));
    const around = calls.slice(500 - NEIGHBOURS, 501 + NEIGHBOURS).map(({ id }) => id);
    expect(whole).toEqual(around);
  });

  test.each([
    ["ended early", { ended: "truncated" }],
    ["spoke after its end", { ended: "done", late: 1 }],
    ["was left by its caller", { ended: "closed_by_client", aborted: true }],
    ["failed under 200", { outcome: "200 error", envelope: "detail" }],
    ["changed a key", { route: "keys.delete", outcome: "204" }],
  ] as [string, Partial<CallLine>][])("a call that %s is not folded", (_, over) => {
    expect(wholeOf(foldedBy([call(1, over)]))).toEqual(["r.s.c-1"]);
  });

  test("calls that differ in more than their times are kinds of their own", () => {
    const calls = [call(1), call(1), call(1, { meter: "map_loads" }), call(1, { expires_in: 9 })];
    expect(
      foldsOf(foldedBy(calls))
        .flatMap(({ kinds }) => kinds.map(({ n }) => n))
        .sort(),
    ).toEqual([1, 1, 2]);
  });
});

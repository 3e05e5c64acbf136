import { describe, expect, test } from "vitest";
import type { Curve, CurveLevel } from "../shedding/curve.ts";
import { measurementsOf } from "../shedding/measures.ts";
import { curveSection } from "./charts/curve-charts.ts";
import { HOSTILE } from "./hostile-text.fixture.ts";
import { madeCurve } from "./made-curve.fixture.ts";
import { madeClaim, madeRun } from "./made-run.fixture.ts";
import { madeSeries } from "./made-series.fixture.ts";
import { definedMeasurement } from "./page/definitions.ts";
import { htmlReport } from "./page/html.ts";
import { curveLines } from "./shown-curve.ts";
import { summaryMarkdown } from "./summary-markdown.ts";

/** As it comes out of a file. */
const read = (curve: unknown): Curve => JSON.parse(JSON.stringify(curve));
const MADE = read(madeCurve());

describe("the curve on the page", () => {
  const page = htmlReport(madeRun(), madeSeries(), { curve: MADE });

  test("stands before what is not a pass, once, and leads to it", () => {
    const at = ['<a href="#curve">', 'id="curve"', 'id="claims"', 'id="courses"'].map((mark) => page.indexOf(mark));
    expect(at.every((one) => one > 0)).toBe(true);
    expect(at).toEqual([...at].sort((a, b) => a - b));
    expect(page).not.toContain('id="headline"');
  });

  test("of a run of many stages stands after the strip of all of them, and is drawn without a series", () => {
    const stages = Array.from({ length: 13 }, (_, i) => ({ stage: `stage-${i}`, calls: 60 }));
    const night = htmlReport(madeRun(), madeSeries(...stages), { curve: MADE });
    expect(night.indexOf('class="strip"')).toBeGreaterThan(0);
    expect(night.indexOf('id="curve"')).toBeGreaterThan(night.indexOf('class="strip"'));
    expect(htmlReport(madeRun(), undefined, { curve: MADE })).toContain('id="curve"');
  });

  test("says the knee, what is kept past it, and what became of the rest", () => {
    expect(page).toMatch(/The knee is at 5\d\/s \(5\d\/s to \d\d\/s\), ended by 429 b2b_overloaded\./);
    expect(page).toMatch(/Of the largest goodput it keeps [\d.]+ % at 2 times the knee, [\d.]+ % at 5 times/);
    expect(page).toMatch(/At 600\/s: 7\d\.?\d* % 429 b2b_overloaded, 1[78].* % 429 org_overloaded/);
  });

  test("has a dot and an interval for each level, two lines, the closed form, all calls in its tables", () => {
    const section = curveSection(MADE, [])!.text;
    expect(section.split('class="spread"')).toHaveLength(MADE.levels.length + 1);
    for (const key of ["closed form", "on the way up", "on the way down", "once more", "late", "503", "edge"])
      expect(section).toContain(key);
    expect(section.split("<tr>")).toHaveLength(2 * (MADE.levels.length + 1) + 1);
    expect(curveSection({ ...MADE, closedForm: null }, [])!.text).not.toContain("closed form");
  });

  test("a knee that moved, a level that was not played and a claim that fails are said", () => {
    const broken = madeClaim("curve/collapse", { stage: "shedding-curve", verdict: "fail", reason: "it collapsed" });
    const after = { value: 30, low: 29, high: 31 };
    const { text } = curveSection({ ...MADE, knee: { ...MADE.knee, after }, notPlayed: [10] }, [
      broken,
      { ...broken, verdict: "pass", code: "held", reason: "it passed" },
      { ...broken, stage: "another", reason: "another one" },
      { ...broken, id: "answered/shedding-curve", reason: "no answer" },
    ])!;
    expect(text).toContain("After the overload it is at 30/s (29/s to 31/s).");
    expect(text).toContain("Not played: 10 times the knee.");
    expect(text.split("Not as it must be: ")).toHaveLength(2);
    expect(text).toContain("Not as it must be: it collapsed.");
    expect(curveSection({ ...MADE, knee: { before: null, after: null } }, [])!.text).toContain("No knee up to 600/s.");
    const knee = { ...MADE.knee, overall: { value: 90, low: 80, high: 100 } };
    expect(curveSection({ ...MADE, knee }, [])!.text).toContain("<title>knee: 90/s, with its 95 % interval</title>");
  });
});

test("the table of a terminal is aligned in 80 columns and says both ways", () => {
  const lines = curveLines(MADE);
  const table = lines.slice(0, 11);
  for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(80);
  const [, head, first] = table as [string, string, string];
  expect(first.length).toBe(head.length);
  expect(head.trim().split(/ +/)).toEqual([
    "×knee",
    "calls/s",
    ...["good/s", "±", "shed", "other", "p99"],
    ...["good/s", "±", "shed", "other", "p99"],
  ]);
  // The highest rate is played once.
  expect(table.map((line) => line.trim().split(/ +/).length).slice(2)).toEqual([12, 12, 12, 12, 12, 12, 12, 12, 7]);
  expect(lines.slice(11).join(" ")).toMatch(/ Once more at 120\/s, after calm: /);
});

test("a cell without a figure is explained, where there is one", () => {
  const levels = MADE.levels.map((level) => ({ ...level, stayMs: { p50: 100, p99: 200 } }));
  const [first, ...others] = levels as [CurveLevel, ...CurveLevel[]];
  const unknown = { ...first, stayMs: { p50: 100, p99: null } };
  expect(curveLines({ ...MADE, levels }).join(" ")).not.toContain("–:");
  expect(curveLines({ ...MADE, levels: [unknown, ...others] }).join(" ")).toContain("–:");
});

test("a curve without stated slots says that a limit set too low is not seen", () => {
  const sentence = "No fixed slots are stated: a limit set too low looks like a smaller deployment.";
  const closedForm = { slots: 12, replicas: 1 };
  expect(curveLines({ ...MADE, closedForm: null })).toContain(sentence);
  expect(curveLines({ ...MADE, closedForm })).not.toContain(sentence);
});

test("the summary has the same rows, and the sentences beneath them", () => {
  const text = summaryMarkdown(madeRun(), { curve: MADE });
  expect(text.indexOf("## Shedding by load")).toBeLessThan(text.indexOf("## Not judged"));
  expect(text).toMatch(/\| 0\.5\d \| 30 \| [\d.]+ \| [\d.]+ \| 0 % \|/);
  expect(text).toContain("The knee is at 5");
  expect(summaryMarkdown(madeRun())).not.toContain("Shedding by load");
});

test("whatever is measured of a curve and of how it settles is defined on the page", () => {
  const settling = ["reaction_ms", "recovery_ms", "amplification", "isolation", "slots_leaked"];
  const names = [...measurementsOf(MADE).map(({ name }) => name), ...settling];
  expect(names.length).toBeGreaterThan(12);
  for (const name of names) expect(definedMeasurement(name).text, name).toContain('href="#def-m-');
});

const [LEVEL] = MADE.levels as [Curve["levels"][number]];
const HUGE = 1e308;

describe("a file that is not what it should be", () => {
  test.each([null, undefined, 1, "x", [], {}, { levels: null }, { levels: [] }, { levels: [null, 1, {}] }])(
    "%j has no curve",
    (found) => {
      expect(curveSection(found, [])).toBeNull();
      expect(curveLines(found)).toEqual([]);
      expect(summaryMarkdown(madeRun(), { curve: found as never })).not.toContain("Shedding by load");
    },
  );

  test.each<[string, unknown]>([
    ["one level", { ...MADE, levels: [LEVEL] }],
    ["one level and nothing else", { levels: [LEVEL] }],
    ["bare levels", { levels: [{ pass: "up", ratePerS: 5 }] }],
    ["the way down alone", { ...MADE, levels: MADE.levels.filter(({ pass }) => pass === "down") }],
    ["no number", JSON.parse(JSON.stringify(MADE), (_, value) => (typeof value === "number" ? null : value))],
    [
      "rates alone",
      JSON.parse(JSON.stringify(MADE), (key, value) =>
        typeof value !== "number" || key === "ratePerS" ? value : null,
      ),
    ],
    [
      "numbers as texts",
      JSON.parse(JSON.stringify(MADE), (key, value) => (typeof value === "number" && key !== "ratePerS" ? "7" : value)),
    ],
    ["no calls", { ...MADE, levels: MADE.levels.map((level) => ({ ...level, offered: 0, good: 0 })) }],
    ["negative", JSON.parse(JSON.stringify(MADE), (_, value) => (typeof value === "number" ? -value : value))],
    ["huge", JSON.parse(JSON.stringify(MADE), (_, value) => (typeof value === "number" ? HUGE : value))],
    ["tiny", JSON.parse(JSON.stringify(MADE), (_, value) => (typeof value === "number" ? 5e-324 : value))],
    [
      "infinite",
      {
        ...MADE,
        levels: [
          { ...LEVEL, ratePerS: Number.POSITIVE_INFINITY },
          { ...LEVEL, goodputPerS: { value: Number.NaN, low: Number.NaN, high: Number.NaN } },
        ],
      },
    ],
    ["endless slots", { ...MADE, closedForm: { slots: 1e15, replicas: 1e15 } }],
  ])("%s is drawn without harm", (_, found) => {
    const drawn = curveSection(found, [])?.text ?? "";
    expect(drawn).not.toMatch(/NaN|Infinity|undefined|null/);
    for (const [, at] of drawn.matchAll(/ (?:cx|cy|x|y|x1|x2|y1|y2|width)="(-?[\d.]+)%?"/g))
      expect(Math.abs(Number(at))).toBeLessThan(1e4);
    for (const line of curveLines(found).slice(0, -2)) expect(line).not.toMatch(/NaN|Infinity|undefined/);
    expect(summaryMarkdown(madeRun(), { curve: found as never })).not.toMatch(/NaN|Infinity/);
  });

  test("whatever a server said stays text", () => {
    const hostile = JSON.parse(`{"__proto__": 7, "constructor": 3, ${JSON.stringify(HOSTILE)}: 5}`);
    const levels = MADE.levels.map((level) => ({ ...level, shed: hostile, failed: hostile }));
    const curve = { ...MADE, levels, kneeBy: HOSTILE, stage: HOSTILE };
    const page = htmlReport(madeRun(), madeSeries(), { curve });
    expect(page.replace(/<script>[\s\S]*?<\/script>/, "")).not.toMatch(/<(?:script|img)\b/i);
    expect(summaryMarkdown(madeRun(), { curve })).not.toMatch(/<script|<img/);
    expect(curveLines(curve).join("")).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  });
});

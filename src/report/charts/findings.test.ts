import { describe, expect, test } from "vitest";
import type { Comparison } from "../../gate/paired-comparison.ts";
import { madeRun } from "../made-run.fixture.ts";
import { madeSeries } from "../made-series.fixture.ts";
import { htmlReport } from "../page/html.ts";
import { capacityChart, capacityCharts, gateChart } from "./found-charts.ts";
import { chartFigure, logTicks } from "./frame.ts";

const compared = (over: Partial<Comparison>): Comparison => ({
  measurement: "latency_ms_p50",
  verdict: "no-regression",
  improved: false,
  pairs: 12,
  base: 20,
  head: 20,
  worseBy: 1.01,
  low: 0.99,
  high: 1.03,
  margin: 1.05,
  differences: Array.from({ length: 12 }, (_, i) => (i - 6) / 200),
  tail: 0.1,
  around: { base: null, head: null },
  pWorse: 1,
  pInside: 0,
  reason: "",
  ...over,
});

const worse = compared({ measurement: "goodput", verdict: "regression", worseBy: 2, low: 1.9, high: 2.1 });

describe("ratios of a gate", () => {
  test("say what is worse by how much, and draw every pair", () => {
    const chart = gateChart({ comparisons: [compared({}), worse] }, "x")!;
    expect(chart.finding).toBe(
      "Worse: goodput 2.00 times worse (1.90 to 2.10; 1.05 allowed). 1 of 2 measurements are inside their margins.",
    );
    expect(chartFigure(chart).text.split('class="pair"')).toHaveLength(25);
    expect(chart.table.rows.map((row) => row.at(-1))).toEqual(["no worse", "worse"]);
  });

  test("nothing that was compared is no chart; what is far off stays inside", () => {
    expect(gateChart({ comparisons: [compared({ worseBy: null })] }, "x")).toBeNull();
    const differences = [Number.NEGATIVE_INFINITY];
    const far = gateChart({ comparisons: [compared({ worseBy: 500, low: 0.001, high: 9_999, differences })] }, "x")!;
    for (const [, share] of chartFigure(far).text.matchAll(/c?x\d?="([\d.]+)%"/g))
      expect(Number(share)).toBeLessThanOrEqual(100);
    expect(chartFigure(far).text).not.toMatch(/NaN|Infinity/);
    // On a narrow screen a tick is left out if it lies nearer to the one before it than a label is wide.
    const across = [0, 0.05, 0.2, 0.3, 0.35].map((at) => ({ at, text: `${at}` }));
    const [, ticks = ""] = chartFigure({ ...far, across }).text.split('class="ticks"');
    expect([...ticks.matchAll(/class="spare" [^>]*>([\d.]+)</g)].map(([, text]) => text)).toEqual(["0.05", "0.3"]);
  });
});

const probe = (ratePerS: number, bad: number, n: number, notes: string[] = []) => ({
  plan: { ratePerS, purpose: "bracket" as const },
  tallies: [{ bad, n }],
  generator: { notes },
});
const found = {
  answer: { kind: "found", ratePerS: 80, low: 70, high: 90, reason: "", binding: 0 },
  objectives: ["refusals<=1%"],
  probes: [probe(40, 0, 120), probe(80, 1, 240), probe(120, 30, 360, ["busy"])],
};

describe("probes of a capacity search", () => {
  test("say the rate and its interval; a disturbed probe is hollow", () => {
    const chart = capacityChart(found, "x")!;
    expect(chart.finding).toBe("refusals<=1% holds up to 80/s (between 70/s and 90/s).");
    expect(chartFigure(chart).text.split('class="hollow"')).toHaveLength(2);
    expect(chartFigure(chart).text).toContain('class="limit"');
  });

  test("a limit is drawn however its share is written; a time has none", () => {
    const limitsOf = (text: string) => capacityChart({ ...found, objectives: [text] }, "x")!.limits!.length;
    expect(["refusals<=1%", "refusals<.5%", "errors<=0.5%", "p99<=300ms", "x"].map(limitsOf)).toEqual([1, 1, 1, 0, 0]);
  });

  test("an answer that was not found is said with its reason", () => {
    const chart = capacityChart({ ...found, answer: { kind: "unknown", reason: "no probe was clean" } }, "x")!;
    expect(chart.finding).toBe("No highest rate was found: no probe was clean.");
    expect(capacityChart({ ...found, probes: [] }, "x")).toBeNull();
  });
});

describe("a file that is not what it should be", () => {
  const gate = { comparisons: [compared({}), worse] };
  const changed = (of: unknown, change: (value: unknown) => unknown): unknown =>
    JSON.parse(JSON.stringify(of), (_, value) => (typeof value === "object" ? value : change(value)));
  const wrong: [string, (of: unknown) => unknown][] = [
    ["null", () => null],
    ["a text", () => "x"],
    ["lists for objects", (of) => Object.values(of as object)],
    ["its lists empty", (of) => JSON.parse(JSON.stringify(of).replaceAll(/\[[^[\]]*\]/g, "[]"))],
    ["texts for numbers", (of) => changed(of, (value) => (typeof value === "number" ? "7" : value))],
    ["numbers for texts", (of) => changed(of, (value) => (typeof value === "string" ? 7 : value))],
    ["no values", (of) => changed(of, () => null)],
    ["negative", (of) => changed(of, (value) => (typeof value === "number" ? -value : value))],
    ["huge", (of) => changed(of, (value) => (typeof value === "number" ? 1e308 : value))],
    ["objects for values", (of) => changed(of, () => ({ toString: 1 }))],
  ];
  test.each(wrong)("%s harms no page", (_, spoil) => {
    const page = htmlReport(madeRun(), madeSeries(), { gate: spoil(gate), capacity: spoil(found) });
    expect(page.replace(/<script>[\s\S]*?<\/script>/, "")).not.toMatch(/NaN|Infinity|undefined|\[object/);
    expect(page).toContain("</html>");
  });

  test("more bad calls than calls, and an objective that is none, are left out", () => {
    expect(capacityChart({ ...found, probes: [probe(40, 9, 3)] }, "x")).toBeNull();
    expect(capacityChart({ ...found, answer: { ...found.answer, binding: 1.5 } }, "x")).toBeNull();
  });
});

test("both stand on the page before the stages", () => {
  const page = htmlReport(madeRun(), madeSeries(), { gate: { comparisons: [worse] }, capacity: found });
  const at = ['id="gate-ratios"', 'id="capacity-rates"', 'id="c0"'].map((mark) => page.indexOf(mark));
  expect(at).not.toContain(-1);
  expect(at).toEqual([...at].sort((a, b) => a - b));
  expect(page).not.toMatch(/NaN/);
});

test("each number of replicas has a chart with a name of its own", () => {
  const replicas = [1, 2].map((count) => ({ ...found, replicas: count }));
  const charts = capacityCharts({ replicas }, "x");
  expect(charts.map((chart) => [chart?.id, chart?.title.slice(0, 12)])).toEqual([
    ["x", "Replicas: 1."],
    ["x-2", "Replicas: 2."],
  ]);
  expect(capacityCharts(found, "x")[0]?.title).not.toContain("Replicas");
});

test.each([
  [1, 1.6],
  [3, 40],
  [0.02, 0.03],
  [0.001, 60_000],
  [150, 230],
])("from %d to %d ms there are a few ticks, inside", (low, high) => {
  const ticks = logTicks(low, high);
  expect(ticks.length).toBeGreaterThanOrEqual(1);
  expect(ticks.length).toBeLessThanOrEqual(9);
  for (const tick of ticks) expect(tick >= low && tick <= high).toBe(true);
});

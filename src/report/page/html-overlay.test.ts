import { describe, expect, test } from "vitest";
import { chartSeriesOf } from "../charts/chart-series.ts";
import { HOSTILE } from "../hostile-text.fixture.ts";
import { madeRun } from "../made-run.fixture.ts";
import { madeSeries } from "../made-series.fixture.ts";
import { answeredChart, htmlOverlay, type Side } from "./html-overlay.ts";
import { PAGE_SCRIPT } from "./page-shell.ts";

const recorded = (calls: number, over = {}) => ({ document: madeRun(over), series: madeSeries({ calls }) });

describe("two runs over each other", () => {
  test("each chart has a line for each run, and a run that was shorter ends earlier", () => {
    const page = htmlOverlay(recorded(1_200), recorded(600, { id: "later" }));
    const figures = page.split("<figure").slice(1);
    expect(figures.length).toBeGreaterThanOrEqual(3);
    for (const figure of figures) {
      const drawn = /<svg class="plot"[\s\S]*?<\/svg>/.exec(figure)![0];
      expect(drawn).toMatch(/line gauges.*line callers|line callers.*line gauges/s);
    }
    const [earlier, later] = [...figures[0]!.matchAll(/<path class="line \w+" d="M0 [^"]{40,}"/g)].map(([d]) =>
      [...d.matchAll(/h([\d.]+)/g)].reduce((sum, [, width]) => sum + Number(width), 0),
    );
    expect(earlier).toBeGreaterThan(600);
    expect(later).toBeLessThan(350);
    expect(page.replace(PAGE_SCRIPT, "")).not.toMatch(/NaN|undefined|Infinity/);
  });

  test("rows of a table hold all calls of both, whatever the widths of their bins", () => {
    const detail = { binsMost: 40, rowsMost: 10, folded: "all" } as const;
    const [a, b] = [madeSeries({ calls: 1_200 }), madeSeries({ calls: 700 })].map(({ stages }) =>
      chartSeriesOf(stages[0]!, detail),
    );
    const sides: Side[] = [
      { name: "earlier", stage: a! },
      { name: "later", stage: b! },
    ];
    const { rows } = answeredChart(sides, "x").table;
    const answered = (i: 1 | 2) => rows.reduce((sum, row) => sum + ((row[i] as number | null) ?? 0), 0);
    const of = (stage: typeof a) => stage!.series.by_outcome["200"]!.reduce((sum, n) => sum + n, 0);
    expect([answered(1), answered(2)]).toEqual([of(a), of(b)]);
  });

  test("measurements of both stand beside each other, and a stage that only one has is named", () => {
    const b = { ...recorded(600), series: madeSeries({ calls: 600 }, { stage: "only-later" }) };
    const page = htmlOverlay(recorded(600), b);
    expect(page).toContain("intervals overlap");
    expect(page).toContain("In one run only, or too small to draw: only-later.");
  });

  test("whatever a run says of itself stays text", () => {
    const hostile = recorded(100, { id: HOSTILE, profile: HOSTILE, commit: HOSTILE, started_at: HOSTILE });
    expect(htmlOverlay(hostile, hostile).replace(`<script>${PAGE_SCRIPT}</script>`, "")).not.toMatch(
      /<(?:script|img)\b/i,
    );
  });
});

import { describe, expect, test } from "vitest";
import { parseObjectives } from "../../history/objectives.ts";
import { outcomesOf } from "../../history/outcomes-of.fixture.ts";
import type { Series } from "../../history/series.ts";
import { sumOf } from "../../history/statistics/statistics.ts";
import { utf8Bytes } from "../escape.ts";
import { HOSTILE } from "../hostile-text.fixture.ts";
import { madeClaim, madeRun } from "../made-run.fixture.ts";
import { madeSeries } from "../made-series.fixture.ts";
import { htmlReport } from "../page/html.ts";
import { PAGE_SCRIPT, PAGE_SCRIPT_HASH } from "../page/page-shell.ts";
import { chartSeriesOf } from "./chart-series.ts";
import { quantileOverTime } from "./durations.ts";
import { faultEffect, faultSentence } from "./faults.ts";
import { layersOf } from "./layers.ts";
import { inFlightByCallers, loadChart } from "./stage-charts.ts";

const DETAIL = { binsMost: 300, rowsMost: 60, folded: "all" } as const;
const stageFrom = (series: Series) => chartSeriesOf(series.stages[0]!, DETAIL);

/** Without the one script, whose text is pinned by its hash. */
const pageOf = (series: Series, run = madeRun()): string =>
  htmlReport(run, series).replace(`<script>${PAGE_SCRIPT}</script>`, "");

describe("charts of a stage", () => {
  test("layers add up to what was offered, in every bin and in the table", () => {
    const stage = stageFrom(madeSeries());
    const layers = layersOf(stage.series);
    expect(stage.series.offered.map((_, i) => sumOf(layers.map(({ counts }) => counts[i]!)))).toEqual(
      stage.series.offered,
    );
    for (const [, offered, ...parts] of loadChart(stage, "x").table.rows)
      expect(sumOf(parts as number[])).toBe(offered);
    expect(sumOf(loadChart(stage, "x").table.rows.map(([, offered]) => offered as number))).toBe(1_200);
  });

  test("a caption says where shedding begins, by what and how much", () => {
    const { finding } = loadChart(stageFrom(madeSeries()), "x");
    expect(finding).toMatch(
      /^429 b2b_overloaded begins at \d+\/s offered, 4\.[5-9] s in; from then on 49\.5 % of the calls are shed/,
    );
  });

  test("a fault is told by its times: seen, healed, recovered", () => {
    const series = madeSeries({ withFault: true, calls: 1_000 });
    const fault = faultEffect(stageFrom(series))!;
    expect(fault.outcomes).toEqual(["429 limiter_unavailable"]);
    expect(fault.detectedAfterS).toBeLessThanOrEqual(0.25);
    expect(fault.healedAfterS).toBeCloseTo(0.05, 2);
    expect(fault.recoveredAfterS).toBeLessThanOrEqual(0.25);
    const never = structuredClone(series);
    const bins = never.stages[0]!.by_outcome["429 limiter_unavailable"]!;
    bins[bins.length - 1] = 0;
    never.stages[0]!.by_outcome["429 limiter_unavailable"] = bins.map((n, i) =>
      i > bins.length * 0.6 ? Math.max(1, n) : n,
    );
    expect(faultSentence(faultEffect(stageFrom(never))!)).toContain("the stage ended before calls ended as before");
  });

  test("a call that was due before the fault and met it does not make its refusal a usual one", () => {
    const series = madeSeries({ withFault: true, calls: 1_000 });
    const stage = series.stages[0]!;
    const refusals = stage.by_outcome["429 limiter_unavailable"]!;
    const asked = stage.events.find(({ name }) => name === "injecting" || name === "injected")!;
    refusals[Math.floor((asked.at_ms - stage.from_ms) / stage.bin_ms) - 1] = 1;
    expect(faultEffect(stageFrom(series))!.outcomes).toEqual(["429 limiter_unavailable"]);
  });

  test("an allowance that is used up beside a fault is neither its effect nor a lack of recovery", () => {
    const series = madeSeries({ withFault: true, calls: 1_000 });
    const stage = series.stages[0]!;
    const before = faultEffect(stageFrom(series))!;
    const last = stage.offered.length - 1;
    stage.by_outcome["429 map_load_hard_stop"] = stage.offered.map((_, i) => (i > last - 4 ? 1 : 0));
    expect(faultEffect(stageFrom(series))).toEqual(before);
    stage.by_outcome["401"] = stage.by_outcome["429 map_load_hard_stop"]!;
    expect(faultSentence(faultEffect(stageFrom(series))!)).toContain("the stage ended before calls ended as before");
  });

  test("each refusal has a layer of its own while there are few, and what comes rarely is together where there are many", () => {
    const [stage] = madeSeries().stages;
    const bins = (n: number) => stage!.offered.map((_, i) => (i < n ? 1 : 0));
    const namesOf = (refusals: Record<string, number[]>) =>
      layersOf({ ...stage!, by_outcome: { "200": bins(9), ...refusals } }).map(({ name, pattern }) => [name, pattern]);
    expect(namesOf({ "429 limiter_unavailable": bins(2), "503": bins(5) })).toEqual([
      ["answered", "answered"],
      ["503", "refused"],
      ["429 limiter_unavailable", "refused-second"],
    ]);
    const many = namesOf({
      "401": bins(1),
      "403 ip_not_allowed": bins(4),
      "503": bins(5),
      "429 rate_limited": bins(3),
    });
    expect(many).toEqual([
      ["answered", "answered"],
      ["503", "refused"],
      ["403 ip_not_allowed", "refused-second"],
      ["refused otherwise", "refused-third"],
    ]);
  });

  test("calls under way are those that started and did not end yet", () => {
    const stage = stageFrom(madeSeries());
    expect(inFlightByCallers(stage).at(-1)).toBe(0);
    expect(Math.max(...inFlightByCallers(stage))).toBeGreaterThan(3);
  });

  test("a quantile stands only where at least five calls lie above it, and breaks where nothing is", () => {
    const bin = (n: number) => (n === 0 ? [] : [160, n]);
    expect(quantileOverTime([bin(4), bin(5)], 0.5)).toEqual([null, null]);
    expect(quantileOverTime([bin(4), bin(6)], 0.5).every((ms) => ms !== null)).toBe(true);
    const broken = quantileOverTime([bin(20), bin(0), bin(0), bin(0), bin(20)], 0.5);
    expect(broken.map((ms) => ms === null)).toEqual([false, true, true, true, false]);
  });
});

describe("the page with charts", () => {
  test("runs its one script and loads nothing", () => {
    const whole = htmlReport(madeRun(), madeSeries());
    expect(whole.split(/<script\b/)).toHaveLength(2);
    expect(whole).toContain(`script-src '${PAGE_SCRIPT_HASH}'`);
    expect(whole).toContain("default-src 'none'");
    expect(pageOf(madeSeries())).not.toMatch(/<(?:link|img|iframe|object|embed|form)\b| on\w+="|@import/i);
  });

  test("every chart is an image with a title, a description, marks and a table, or columns of its stage's table", () => {
    const page = pageOf(madeSeries({ withFault: true }));
    const figures = page.split("<figure").slice(1);
    expect(figures.length).toBeGreaterThanOrEqual(9);
    const [, all = ""] = /<div class="all-figures">(.*?)<\/div>/s.exec(page)!;
    const shared = all
      .split("<tr>")
      .slice(1)
      .map((row) => row.split(/<t[hd]>/).slice(1));
    expect(shared.length).toBeGreaterThan(3);
    expect(shared.length).toBeLessThan(64);
    let next = 1;
    for (const figure of figures) {
      const [, title, desc] = /role="img" aria-labelledby="(\S+) (\S+)"/.exec(figure)!;
      expect(figure).toMatch(new RegExp(`<title id="${title}">[^<]+</title><desc id="${desc}">[^<]+</desc>`));
      expect(figure).toMatch(/<svg class="plot"[\s\S]*?<path (?!class="grid")/);
      expect(figure).toMatch(/<figcaption>.+<\/figcaption>/);
      const columns = /data-columns="(\d+) (\d+)"/.exec(figure)?.slice(1).map(Number);
      if (columns === undefined) {
        expect(figure.split("<tr>").length).toBeGreaterThan(2);
        expect(figure.split("<tr>").length).toBeLessThan(63);
        continue;
      }
      const [from = 0, to = 0] = columns;
      expect([from, to > from]).toEqual([next, true]);
      for (const row of shared.slice(1)) expect(row.slice(from, to)).toHaveLength(to - from);
      next = to;
    }
    expect(shared[1]).toHaveLength(next);
  });

  test("ids are unique and no number is broken", () => {
    const page = pageOf(madeSeries({ withFault: true }, { stage: "second", calls: 300 }));
    const ids = [...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(page).not.toMatch(/NaN|Infinity|undefined/);
  });

  test("whatever a name holds stays text", () => {
    expect(pageOf(madeSeries({ text: HOSTILE, withFault: true }))).not.toMatch(/<(?:script|img)\b/i);
  });

  test("a limit that the target states is drawn and judged in the caption", () => {
    const claim = madeClaim("slo/chat/chat-past-capacity", {
      stage: "chat-past-capacity",
      level: "should",
      verdict: "fail",
      expected: "as the target file states",
      objectives: parseObjectives("p99<=150ms"),
    });
    const page = pageOf(madeSeries(), madeRun({ claims: [claim] }));
    expect(page).toContain('class="limit"');
    expect(page).toContain("above chat p99&lt;=150ms");
  });

  test("of 47 experiments it is at most 1 MB, says what is coarser, and each has its chart, its times and its sums", () => {
    const names = Array.from({ length: 47 }, (_, i) => `experiment-${i}`);
    const each = <T>(count: number, make: (stage: string, i: number) => T): T[] =>
      names.flatMap((stage) => Array.from({ length: count }, (_, i) => make(stage, i)));
    const { stages, measurements } = madeRun();
    const claims = each(12, (stage, i) => madeClaim(`rule-${i}/${stage}`, { replay: "npx floodgate chaos" }));
    const run = madeRun({
      claims: [...claims, ...names.map((stage) => madeClaim(`counts-agree/${stage}`, { reason: "all agree" }))],
      stages: names.map((name) => ({ ...stages[2]!, name })),
      measurements: each(20, (stage, i) => ({ ...measurements[i % measurements.length]!, stage })),
    });
    const page = htmlReport(run, madeSeries(...names.map((stage) => ({ stage, calls: 400, withFault: true }))));
    expect(utf8Bytes(page)).toBeLessThanOrEqual(1_048_576);
    expect(page).toMatch(/To keep this page small, .*have no charts of .*first events/);
    for (const [i, block] of page.split('<details class="course"').slice(1).entries()) {
      expect(block).toContain(`id="c${i}-load"`);
      expect(block).toMatch(/<rect class="band"/);
      expect(block).toMatch(/to detect<\/dt><dd>within .*to heal<\/dt><dd>.*to recover<\/dt><dd>/);
      expect(block).toContain("922 calls = 640 answered + 282 refused + 0 indeterminate; all agree");
    }
  });

  test("of 200 stages it is smaller than 3 MB, or says that charts are left out", () => {
    const many = Array.from({ length: 200 }, (_, i) => ({ stage: `stage-${i}`, calls: 300 }));
    const page = htmlReport(madeRun(), madeSeries(...many));
    expect(utf8Bytes(page)).toBeLessThan(3 * 1024 * 1024);
    expect(page).toMatch(/To keep this page small|The charts were left out/);
  });

  test("what keys and lines point at is there, once", () => {
    const page = pageOf(madeSeries({ withFault: true }));
    const ids = [...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
    const wanted = [...page.matchAll(/ href="#([^"]+)"/g)].map(([, id]) => id);
    expect(wanted.length).toBeGreaterThan(20);
    expect(wanted.filter((id) => ids.filter((one) => one === id).length !== 1)).toEqual([]);
  });

  test("what is drawn is what the series holds", () => {
    const series = madeSeries();
    expect(sumOf(Object.values(outcomesOf(series.stages[0]!)))).toBe(1_200);
  });
});

/** The first thing to look at: a gate's ratios, a capacity search's rates, a strip of many stages, or the one that matters most. */
import { scaleLinear } from "d3-scale";
import type { RunDocument } from "../../history/run-document.ts";
import { type Series, type StageSeries, sumOf } from "../../history/series.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { chartSeriesOf, stepPath } from "../charts/chart-series.ts";
import { type Found, isDrawn, verdictOfStage } from "../charts/charts-section.ts";
import { capacityChart, gateChart } from "../charts/found-charts.ts";
import { chartFigure, WIDTH } from "../charts/frame.ts";
import { countsOf, layerAreas, layerShape } from "../charts/layers.ts";
import { bandShapes } from "../charts/over-time.ts";
import { loadChart } from "../charts/stage-charts.ts";
import { count, share } from "../figures.ts";
import { sign } from "./html-claims.ts";
import { html, type Markup } from "./markup.ts";

/** With more stages than this no single one stands for the run. */
const STAGES_MOST = 12;
const DETAIL = { binsMost: 120, rowsMost: 25 };
const SMALL_DETAIL = { binsMost: 32, rowsMost: 1 };
const SMALL_HEIGHT = 64;

const shedIn = (series: StageSeries): number => sumOf(countsOf(series, "shed"));

/** The stage that stands for the run: one that failed or stayed open, else what shed most. Ids are those of `chartsSection`. */
const oneStage = (run: RunDocument, drawn: readonly StageSeries[]): Markup => {
  const verdicts = drawn.map(({ stage }) => verdictOfStage(run, stage));
  const sheds = drawn.map(shedIn);
  const by = sheds.some((n) => n > 0) ? sheds : drawn.map(({ offered }) => sumOf(offered));
  const order = [verdicts.indexOf("fail"), verdicts.indexOf("inconclusive"), by.indexOf(Math.max(...by))];
  const at = order.find((i) => i >= 0) ?? 0;
  const [series, verdict] = [drawn[at] as StageSeries, verdicts[at] ?? null];
  // What it plays; an experiment is called after what it breaks.
  const story = STORIES.get(series.stage);
  const played = story === undefined ? null : html`<p class="muted">${`${story.purpose}.`}</p>`;
  const chart = chartFigure(loadChart(chartSeriesOf(series, DETAIL), "headline-load"));
  return html`<h2>${verdict && sign(verdict, 20)} <a href="#c${at}">${series.stage}</a></h2>${played}${chart}`;
};

const small = (run: RunDocument, whole: StageSeries, at: number): Markup => {
  const stage = chartSeriesOf(whole, SMALL_DETAIL);
  const { series, binS } = stage;
  const y = scaleLinear([0, Math.max(...series.offered) / binS], [SMALL_HEIGHT, 2]);
  const rates = series.offered.map((n) => n / binS);
  const verdict = verdictOfStage(run, whole.stage);
  const calls = sumOf(whole.offered);
  const shed = shedIn(whole);
  const words = `${count(calls)} calls${shed === 0 ? "" : `, ${share(shed, calls)} shed`}`;
  return html`<li><a href="#c${at}">${verdict && sign(verdict, 14)} <span>${whole.stage}</span><svg class="plot" role="img" aria-label="${whole.stage}: ${verdict ?? "not judged"}, ${words}" width="100%" height="${SMALL_HEIGHT}" viewBox="0 0 ${WIDTH} ${SMALL_HEIGHT}" preserveAspectRatio="none" fill="none" stroke="currentColor">${layerAreas(stage, y, SMALL_HEIGHT).map(layerShape)}${bandShapes(stage, SMALL_HEIGHT)}<path class="line" d="${stepPath(stage, rates, y)}"/></svg><span class="small muted">${words}</span></a></li>`;
};

const strip = (run: RunDocument, drawn: readonly StageSeries[]): Markup =>
  html`<h2>Every stage</h2><p class="small muted">A line shows what was offered, each on a scale of its own; the layers beneath show what came of it; a band is a fault.</p><ul class="strip">${drawn.map((one, at) => small(run, one, at))}</ul>`;

/** `hasCurve`: what stands for a run of few stages follows in a section of its own. */
export const headline = (run: RunDocument, series: Series, found: Found, hasCurve: boolean): Markup | null => {
  const charts = [
    found.gate === undefined || found.gate.length === 0 ? null : gateChart(found.gate, "gate-ratios"),
    found.capacity === undefined ? null : capacityChart(found.capacity, "capacity-rates"),
  ].filter((chart) => chart !== null);
  if (charts.length > 0)
    return html`<section class="card" id="headline">${charts.map((chart) => chartFigure(chart))}</section>`;
  const drawn = series.stages.filter(isDrawn(run.stages));
  if (drawn.length === 0 || (hasCurve && drawn.length <= STAGES_MOST)) return null;
  const body = drawn.length > STAGES_MOST ? strip(run, drawn) : oneStage(run, drawn);
  return html`<section class="card" id="headline">${body}</section>`;
};

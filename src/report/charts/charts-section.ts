/** The part of the page that shows a run over time: a block for each stage, open if it needs a look. */
import type { ClaimVerdict, RunDocument, StageSummary } from "../../history/run-document.ts";
import type { Series, StageSeries } from "../../history/series.ts";
import { sumOf } from "../../history/statistics/statistics.ts";
import { counted, milliseconds, seconds } from "../figures.ts";
import { card, html, type Markup, prose } from "../page/markup.ts";
import { VERDICTS } from "../verdict.ts";
import { type ChartSeries, chartSeriesOf, type Detail } from "./chart-series.ts";
import { faultFacts } from "./faults.ts";
import { type Chart, chartFigure, figuresOverTime } from "./frame.ts";
import { chartsOfStage } from "./stage-charts.ts";

/** A chart of fewer calls shows no more than its table. */
const CALLS_LEAST = 20;
/** With more stages than this, only stages that need a look start open, at most `NEED_MOST`. */
const OPEN_MOST = 3;
const NEED_MOST = 6;

/** A block of charts that share a cursor and a zoom, with what stands before and after them. */
export const chartsBlock = (
  about: { id: string; name: string; calls: number; isOpen: boolean; before?: Markup | null; after: Markup },
  stage: ChartSeries,
  overTime: readonly Chart[],
): Markup => {
  const { id, name, calls, isOpen, before, after } = about;
  const width = `Bins of ${milliseconds(stage.series.bin_ms)}, by the moment at which a call was due; times are counted from the first. How long something took is exact to 2.2 % here, and to 0.1 % under Measurements.`;
  return html`<details class="course" id="${id}" data-span="${stage.spanS}"${isOpen && html` open`}><summary><b>${name}</b> <span class="muted">${counted(calls, "call")} in ${seconds(Number(stage.spanS.toFixed(1)))}.</span> <span class="said">${overTime[0]?.finding}</span></summary>
<p class="small muted">${width}</p>${before}${figuresOverTime(overTime)}${after}</details>`;
};

const stageBlock = (whole: StageSeries, run: RunDocument, detail: Detail, id: string, isOpen: boolean): Markup => {
  // An open block stays readable, however many others there are.
  const [columns, rows] = isOpen ? [100, 25] : [0, 0];
  const { binsMost, rowsMost, folded } = detail;
  const stage = chartSeriesOf(whole, { binsMost: Math.max(columns, binsMost), rowsMost: Math.max(rows, rowsMost) });
  const { overTime, others, said } = chartsOfStage(stage, run.claims, id, isOpen ? "all" : folded);
  const sentences = said.map(({ title, finding }) => {
    return html`<p class="said-only"><span class="what">${title}</span> ${prose(finding)}</p>`;
  });
  const beside = html`<div class="beside">${others.map((chart) => chartFigure(chart))}</div>`;
  const after = html`${sentences}${others.length > 0 && beside}`;
  const about = { id, isOpen, name: whole.stage, calls: sumOf(whole.offered), before: faultFacts(stage, run), after };
  return chartsBlock(about, stage, overTime);
};

/** The worst verdict of the *must* claims of a stage; `null` if there are none. */
export const verdictOfStage = ({ claims }: RunDocument, stage: string): ClaimVerdict | null => {
  const own = new Set(claims.filter((one) => one.stage === stage && one.level === "must").map((one) => one.verdict));
  return VERDICTS.find((verdict) => own.has(verdict) && (verdict !== "skipped" || own.size === 1)) ?? null;
};

export const isDrawn =
  (stages: readonly StageSummary[]) =>
  (one: StageSeries): boolean =>
    sumOf(one.offered) >= CALLS_LEAST && stages.find(({ name }) => name === one.stage)?.driver !== "verify";

/** `note`: a sentence about the size of the page. Returns `null` if no stage is worth drawing. */
export const chartsSection = (run: RunDocument, series: Series, detail: Detail, note: string | null): Markup | null => {
  const drawn = series.stages.filter(isDrawn(run.stages));
  if (drawn.length === 0) return null;
  const left = series.stages.filter((one) => !drawn.includes(one)).map(({ stage }) => stage);
  const names = html`<p class="small muted">Not drawn: ${left.join(", ")} (single calls, or fewer than ${CALLS_LEAST}).</p>`;
  const needsALook = ({ stage }: StageSeries) => ["fail", "inconclusive"].includes(verdictOfStage(run, stage) ?? "");
  const open = drawn.length <= OPEN_MOST ? drawn : drawn.filter(needsALook).slice(0, NEED_MOST);
  const blocks = drawn.map((one, i) => stageBlock(one, run, detail, `c${i}`, open.includes(one)));
  const lead = note && html`<p class="small muted">${note}</p>`;
  return card("courses", "Over time", lead, blocks, left.length > 0 && names);
};

/** The part of the page that shows a run over time: a block for each stage, those that need a look open. */
import type { Comparison } from "../../gate/paired-comparison.ts";
import type { Claim, RunDocument, StageSummary } from "../../history/run-document.ts";
import { type Series, type StageSeries, sumOf } from "../../history/series.ts";
import { counted, milliseconds, seconds } from "../figures.ts";
import { html, type Markup } from "../page/markup.ts";
import { type Course, courseOf, type Detail } from "./course.ts";
import { faultFacts } from "./faults.ts";
import type { FoundCapacity } from "./found-charts.ts";
import { chartFigure, figuresOverTime } from "./frame.ts";
import { chartsOfStage } from "./stage-charts.ts";

/** A chart of fewer calls shows nothing that its table does not. */
const CALLS_LEAST = 20;
/** With more stages than this only those that need a look start open. */
const OPEN_MOST = 3;

/** And not more than this. */
const NEED_MOST = 6;

/** What is open stays readable, however many others there are. */
const openDetail = ({ binsMost, rowsMost }: Detail): Detail => ({
  binsMost: Math.max(100, binsMost),
  rowsMost: Math.max(25, rowsMost),
  folded: "all",
});

/** An attribute without a value. */
const OPEN = html` open`;

/** A block of charts that share a cursor and a zoom. */
export const courseBlock = (
  about: { id: string; name: string; calls: number; isOpen: boolean },
  course: Course,
  charts: { finding: string; before: Markup | null; overTime: Markup; others: Markup | null },
): Markup => {
  const { id, name, calls, isOpen } = about;
  const width = `Bins of ${milliseconds(course.series.bin_ms)}, by the moment at which a call was due; times are counted from the first. How long something took is exact to 2.2 % here, and to 0.1 % under Measurements.`;
  return html`<details class="course" id="${id}" data-span="${course.spanS}"${isOpen ? OPEN : null}><summary><b>${name}</b> <span class="muted">${counted(calls, "call")} in ${seconds(Number(course.spanS.toFixed(1)))}.</span> <span class="said">${charts.finding}</span></summary>
<p class="small muted">${width}</p>${charts.before}${charts.overTime}${charts.others}</details>`;
};

const stageBlock = (
  whole: StageSeries,
  run: RunDocument,
  detail: Detail,
  about: { id: string; isOpen: boolean },
): Markup => {
  const own = about.isOpen ? openDetail(detail) : detail;
  const course = courseOf(whole, own);
  const { overTime, others, said } = chartsOfStage(course, run.claims, about.id, own.folded);
  return courseBlock({ ...about, name: whole.stage, calls: sumOf(whole.offered) }, course, {
    finding: overTime[0]?.finding ?? "",
    before: faultFacts(course, run),
    overTime: html`${figuresOverTime(overTime)}${said.map(({ title, finding }) => html`<p class="said-only"><span class="what">${title}</span> ${finding}</p>`)}`,
    others: others.length === 0 ? null : html`<div class="beside">${others.map((chart) => chartFigure(chart))}</div>`,
  });
};

const needsALook = (claims: readonly Claim[], stage: string): boolean =>
  claims.some(
    (claim) =>
      claim.stage === stage && claim.level === "must" && (claim.verdict === "fail" || claim.verdict === "inconclusive"),
  );

export const isDrawn =
  (stages: readonly StageSummary[]) =>
  (one: StageSeries): boolean =>
    sumOf(one.offered) >= CALLS_LEAST && stages.find(({ name }) => name === one.stage)?.driver !== "verify";

/** What a gate or a capacity search found, beside the calls that it made. */
export type Found = { gate?: readonly Comparison[]; capacity?: FoundCapacity };

/** `note`: what is said of the size of the page. `null` where no stage is worth drawing. */
export const chartsSection = (run: RunDocument, series: Series, detail: Detail, note: string | null): Markup | null => {
  const drawn = series.stages.filter(isDrawn(run.stages));
  if (drawn.length === 0) return null;
  const left = series.stages.filter((one) => !drawn.includes(one)).map(({ stage }) => stage);
  const leftOut =
    left.length === 0
      ? null
      : html`<p class="small muted">Not drawn: ${left.join(", ")} (single calls, or fewer than ${CALLS_LEAST}).</p>`;
  const needed = drawn.filter(({ stage }) => needsALook(run.claims, stage)).slice(0, NEED_MOST);
  const blocks = drawn.map((one, i) =>
    stageBlock(one, run, detail, {
      id: `c${i}`,
      isOpen: drawn.length <= OPEN_MOST || needed.includes(one),
    }),
  );
  return html`<section class="card" id="courses"><h2>Over time</h2>${note === null ? null : html`<p class="small muted">${note}</p>`}${blocks}${leftOut}</section>`;
};

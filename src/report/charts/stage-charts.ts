/** All charts of one stage, those over time on one axis. */
import { mergeSparse, quantileMs } from "../../history/log-buckets.ts";
import type { Claim, RunDocument, StageSummary } from "../../history/run-document.ts";
import { type Series, type StageSeries, sumOf } from "../../history/series.ts";
import { counted } from "../figures.ts";
import { html, type Markup } from "../markup.ts";
import { kindOf, type OutcomeKind } from "../outcome-kinds.ts";
import { milliseconds, seconds } from "./chart-figures.ts";
import { type Course, courseOf, type Detail } from "./course.ts";
import { courseOfFault } from "./fault-course.ts";
import { type Chart, chartFigure } from "./frame.ts";
import { cpuChart, doubtedBins, lagChart } from "./generator-chart.ts";
import { heatMap } from "./heat-map.ts";
import { inFlightChart } from "./in-flight-chart.ts";
import { loadChart } from "./load-chart.ts";
import { organizationsChart } from "./organizations-chart.ts";
import { percentilePlot } from "./percentile-plot.ts";
import { timeLimitsOf } from "./time-limits.ts";

/** A chart of fewer calls shows nothing that its table does not. */
const CALLS_LEAST = 20;
/** With more stages than this only those that need a look start open. */
const OPEN_MOST = 3;

const cheapness = ({ series }: Course): string | undefined => {
  const [refusal, answer] = [series.refusals, series.latency].map((bins) => quantileMs(mergeSparse(bins), 0.5));
  if (refusal === null || answer === null || refusal === undefined || answer === undefined) return undefined;
  const times = answer / refusal;
  return times >= 1.5
    ? `At the median an answer takes ${times >= 10 ? times.toFixed(0) : times.toFixed(1)} times as long.`
    : "A refusal takes as long as an answer, or longer.";
};

/** An attribute without a value. */
const OPEN = html` open`;

/** Whether most refusals are for overload. */
const isShedding = ({ series }: Course): boolean => {
  const of = (kind: OutcomeKind): number =>
    sumOf(Object.entries(series.by_outcome).flatMap(([outcome, counts]) => (kindOf(outcome) === kind ? counts : [])));
  return of("shed") >= of("refused");
};

type Drawn = { timed: Chart[]; others: Chart[]; strip: Chart[] };

const chartsOf = (course: Course, whole: StageSeries, claims: readonly Claim[], id: string): Drawn => {
  const { series } = course;
  const limits = timeLimitsOf(claims, series.stage);
  const answers = limits.filter(({ of }) => of === "answer");
  const firsts = limits.filter(({ of }) => of === "first event");
  const doubted = doubtedBins(course);
  const more = cheapness(course);
  const isThere = (chart: Chart | null): chart is Chart => chart !== null;
  const blue = { hue: "kind-answered", doubted } as const;
  const timed = [
    loadChart(course, `${id}-load`),
    heatMap(course, {
      ...blue,
      id: `${id}-latency`,
      title: "Latency of answers, from the moment a call was due.",
      buckets: series.latency,
      of: ["answer", "answers"],
      limits: answers,
    }),
    heatMap(course, {
      id: `${id}-refusals`,
      title: "Time to a refusal.",
      buckets: series.refusals,
      of: ["refusal", "refusals"],
      hue: isShedding(course) ? "kind-shed" : "kind-refused",
      doubted,
      height: 100,
      ...(more === undefined ? {} : { more }),
    }),
    heatMap(course, {
      ...blue,
      id: `${id}-first`,
      title: "Time to the first event of a stream.",
      buckets: series.first_event,
      of: ["stream", "streams"],
      limits: firsts,
      height: 100,
    }),
    heatMap(course, {
      ...blue,
      id: `${id}-gaps`,
      title: "Gaps between two events of a stream.",
      buckets: series.gaps,
      of: ["gap", "gaps"],
      height: 100,
    }),
    inFlightChart(course, `${id}-flight`),
  ].filter(isThere);
  const curves = [
    { name: "from the moment due", buckets: mergeSparse(whole.latency), shape: "line callers" },
    { name: "from sending", buckets: whole.latency_from_sent, shape: "line gauges" },
  ];
  return {
    timed,
    strip: [lagChart(course, `${id}-lag`), cpuChart(course, `${id}-cpu`)].filter(isThere),
    others: [
      percentilePlot({ id: `${id}-percentiles`, title: "Latency by percentile." }, curves, answers),
      organizationsChart(course, `${id}-orgs`),
    ].filter(isThere),
  };
};

const controls = (course: Course, stage: string): Markup =>
  html`<div class="controls" hidden><label>Cursor <input type="range" min="0" max="${course.spanS}" step="${Number((course.binS * course.binsInRow).toFixed(6))}" value="0" aria-label="cursor through the charts of ${stage}"></label><output></output><span class="buttons"><button type="button" value="in">Zoom in</button><button type="button" value="out">Zoom out</button><button type="button" value="all">All</button></span></div>`;

const faultTimes = (course: Course): Markup | null => {
  const fault = courseOfFault(course);
  if (fault === null) return null;
  const bin = milliseconds(fault.binS * 1000);
  const after = (s: number | null, none: string): string =>
    s === null ? none : s <= fault.binS ? `within ${bin}` : `${milliseconds(s * 1000)}, to ${bin}`;
  return html`<dl class="facts"><dt>to detect</dt><dd>${after(fault.detectedAfterS, "nothing was seen by callers")}</dd><dt>to heal</dt><dd>${fault.healedAfterS === null ? "not confirmed" : milliseconds(fault.healedAfterS * 1000)}</dd><dt>to recover</dt><dd>${after(fault.recoveredAfterS, "not known")}</dd></dl>`;
};

const stageBlock = (
  whole: StageSeries,
  claims: readonly Claim[],
  detail: Detail,
  id: string,
  isOpen: boolean,
): Markup => {
  const course = courseOf(whole, detail);
  const { timed, others, strip } = chartsOf(course, whole, claims, id);
  const width = `Bins of ${milliseconds(course.series.bin_ms)}, by the moment at which a call was due; times are counted from the first.`;
  return html`<details class="course" id="${id}" data-span="${course.spanS}"${isOpen ? OPEN : null}><summary><b>${whole.stage}</b> <span class="muted">${counted(sumOf(whole.offered), "call")} in ${seconds(Number(course.spanS.toFixed(1)))}.</span> <span>${timed[0]?.finding ?? ""}</span></summary>
<p class="small muted">${width}</p>${controls(course, whole.stage)}${faultTimes(course)}${timed.map(chartFigure)}${strip.map(chartFigure)}<div class="beside">${others.map(chartFigure)}</div></details>`;
};

const needsALook = (claims: readonly Claim[], stage: string): boolean =>
  claims.some(
    (claim) =>
      claim.stage === stage && claim.level === "must" && (claim.verdict === "fail" || claim.verdict === "inconclusive"),
  );

const isDrawn =
  (summaries: ReadonlyMap<string, StageSummary>) =>
  (one: StageSeries): boolean =>
    sumOf(one.offered) >= CALLS_LEAST && summaries.get(one.stage)?.driver !== "verify";

/** `note`: what is said of the size of the page. */
export const chartsSection = (run: RunDocument, series: Series, detail: Detail, note: string | null): Markup | null => {
  const summaries = new Map(run.stages.map((stage) => [stage.name, stage]));
  const drawn = series.stages.filter(isDrawn(summaries));
  if (drawn.length === 0) return null;
  const left = series.stages.filter((one) => !drawn.includes(one)).map(({ stage }) => stage);
  const leftOut =
    left.length === 0
      ? null
      : html`<p class="small muted">Not drawn: ${left.join(", ")} (single calls, or fewer than ${CALLS_LEAST}).</p>`;
  const blocks = drawn.map((one, i) =>
    stageBlock(one, run.claims, detail, `c${i}`, drawn.length <= OPEN_MOST || needsALook(run.claims, one.stage)),
  );
  return html`<section class="card" id="courses"><h2>Over time</h2>${note === null ? null : html`<p class="small muted">${note}</p>`}${blocks}${leftOut}</section>`;
};

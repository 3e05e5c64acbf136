/** Which charts a stage has. */
import type { Claim } from "../../history/run-document.ts";
import { sumOf } from "../../history/series.ts";
import { mergeSparse, quantileMs } from "../../history/statistics/log-buckets.ts";
import { kindOf, type OutcomeKind } from "../outcome-kinds.ts";
import type { Course, Detail } from "./course.ts";
import type { Chart } from "./frame.ts";
import { cpuChart, doubtedBins, lagChart } from "./generator-chart.ts";
import { type HeatMap, heatMap } from "./heat-map.ts";
import { inFlightChart } from "./in-flight-chart.ts";
import { loadChart } from "./load-chart.ts";
import { organizationsChart } from "./organizations-chart.ts";
import { percentilePlot } from "./percentile-plot.ts";
import { type TimeLimit, timeLimitsOf } from "./time-limits.ts";

/** What a refusal costs beside an answer, in a sentence. */
const cheapness = ({ series }: Course): string | undefined => {
  const [refusal = null, answer = null] = [series.refusals, series.latency].map((bins) =>
    quantileMs(mergeSparse(bins), 0.5),
  );
  if (refusal === null || answer === null) return undefined;
  const times = answer / refusal;
  return times >= 1.5
    ? `At the median an answer takes ${times >= 10 ? times.toFixed(0) : times.toFixed(1)} times as long.`
    : "A refusal takes as long as an answer, or longer.";
};

/** Whether most refusals are for overload. */
const isShedding = ({ series }: Course): boolean => {
  const of = (kind: OutcomeKind): number =>
    sumOf(Object.entries(series.by_outcome).flatMap(([outcome, counts]) => (kindOf(outcome) === kind ? counts : [])));
  return of("shed") >= of("refused");
};

const latencyMap = ({ series }: Course, id: string, limits: readonly TimeLimit[]): HeatMap => ({
  id: `${id}-latency`,
  title: "Latency of answers, from the moment a call was due.",
  buckets: series.latency,
  of: ["answer", "answers"],
  hue: "kind-answered",
  limits,
});

const refusalMap = (course: Course, id: string): HeatMap => {
  const more = cheapness(course);
  return {
    id: `${id}-refusals`,
    title: "Time to a refusal.",
    buckets: course.series.refusals,
    of: ["refusal", "refusals"],
    hue: isShedding(course) ? "kind-shed" : "kind-refused",
    height: 100,
    ...(more === undefined ? {} : { more }),
  };
};

const firstEventMap = ({ series }: Course, id: string, limits: readonly TimeLimit[]): HeatMap => ({
  id: `${id}-first`,
  title: "Time to the first event of a stream.",
  buckets: series.first_event,
  of: ["stream", "streams"],
  hue: "kind-answered",
  height: 100,
  limits,
});

const gapMap = ({ series }: Course, id: string): HeatMap => ({
  id: `${id}-gaps`,
  title: "Gaps between two events of a stream.",
  buckets: series.gaps,
  of: ["gap", "gaps"],
  hue: "kind-answered",
  height: 100,
});

/** Over time and on one axis; and those that have an axis of their own. */
type StageCharts = {
  overTime: Chart[];
  others: Chart[];
  /** Of charts that would show nothing but this. */
  said: Pick<Chart, "title" | "finding">[];
};

const isThere = (chart: Chart | null): chart is Chart => chart !== null;

export const chartsOfStage = (
  course: Course,
  claims: readonly Claim[],
  id: string,
  which: Detail["folded"],
): StageCharts => {
  const limits = timeLimitsOf(claims, course.series.stage);
  const answers = limits.filter(({ of }) => of === "answer");
  const firsts = limits.filter(({ of }) => of === "first event");
  const maps = [
    latencyMap(course, id, answers),
    refusalMap(course, id),
    ...(which === "all" ? [firstEventMap(course, id, firsts), gapMap(course, id)] : []),
  ];
  const doubted = doubtedBins(course);
  const lag = lagChart(course, `${id}-lag`);
  const isLagDrawn = which === "all" || doubted.some((isLate) => isLate);
  const overTime = [
    loadChart(course, `${id}-load`),
    ...maps.map((map) => heatMap(course, { ...map, doubted })),
    inFlightChart(course, `${id}-flight`),
    isLagDrawn && which !== "least" ? lag : null,
    which === "all" ? cpuChart(course, `${id}-cpu`) : null,
  ].filter(isThere);
  const said = overTime.includes(lag) ? [] : [lag];
  if (which !== "all") return { overTime, others: [], said };
  const curves = [
    { name: "from the moment due", buckets: mergeSparse(course.fine.latency), shape: "line callers" as const },
    { name: "from sending", buckets: course.fine.latency_from_sent, shape: "line gauges" as const },
  ];
  const others = [
    percentilePlot({ id: `${id}-percentiles`, title: "Latency by percentile." }, curves, answers),
    organizationsChart(course, `${id}-orgs`),
  ].filter(isThere);
  return { overTime, others, said };
};

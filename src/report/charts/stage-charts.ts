/** Which charts a stage has, and what each of them shows: load, durations, calls in flight, and the generator itself. */
import { largestOf, mergedOf, sumsOf } from "../../history/coarser-series.ts";
import { parseObjectives } from "../../history/objectives.ts";
import type { Claim } from "../../history/run-document.ts";
import type { SampleName } from "../../history/sample.ts";
import { sumOf } from "../../history/series.ts";
import { mergeSparse, quantileMs } from "../../history/statistics/log-buckets.ts";
import { count, counted, figure, milliseconds, perSecond, seconds, share } from "../figures.ts";
import { html } from "../page/markup.ts";
import { type ChartSeries, type Detail, stepPath, xOf } from "./chart-series.ts";
import { faultEffect } from "./faults.ts";
import { swatch } from "./fills.ts";
import type { Chart } from "./frame.ts";
import { type HeatMap, heatMap } from "./heat-map.ts";
import { countsOf, type Layer, layerShapes, layersOf } from "./layers.ts";
import { organizationsChart } from "./organizations-chart.ts";
import { linear, overTime } from "./over-time.ts";
import { percentilePlot, type TimeLimit } from "./percentile-plot.ts";
import { pathThrough } from "./step-path.ts";

/** Seconds around the first shed call in which the offered rate is read. */
const AROUND_S = 1;

const rateAround = ({ series, binS, bins }: ChartSeries, at: number): number => {
  const reach = Math.max(1, Math.round(AROUND_S / binS / 2));
  const [from, to] = [Math.max(0, at - reach), Math.min(bins, at + reach + 1)];
  return sumOf(series.offered.slice(from, to)) / ((to - from) * binS);
};

const sheddingFinding = (stage: ChartSeries, shed: readonly Layer[]): string => {
  const { series, binS } = stage;
  const first = Math.min(...shed.map(({ counts }) => counts.findIndex((n) => n > 0)));
  const starter = shed.find(({ counts }) => (counts[first] ?? 0) > 0) as Layer;
  const offered = sumOf(series.offered.slice(first));
  const when = first <= stage.bins * 0.02 ? "from the start" : `${seconds(Number((first * binS).toFixed(1)))} in`;
  const after = sumOf(shed.flatMap(({ counts }) => counts.slice(first)));
  const all =
    shed.length === 1
      ? `all ${starter.name}`
      : shed.map(({ name, counts }) => `${count(sumOf(counts))} ${name}`).join(", ");
  return `${starter.name} begins at ${perSecond(rateAround(stage, first))} offered, ${when}; from then on ${share(after, offered)} of the calls are shed (${all}).`;
};

const loadFinding = (stage: ChartSeries, layers: readonly Layer[]): string => {
  const fault = faultEffect(stage);
  if (fault !== null) return fault.sentence;
  const total = sumOf(stage.series.offered);
  const shed = layers.filter(({ kind }) => kind === "shed");
  if (shed.length > 0) return sheddingFinding(stage, shed);
  const answered = sumOf(layers.filter(({ kind }) => kind === "answered").flatMap(({ counts }) => counts));
  if (answered === total) return `All ${counted(total, "call")} were answered, none was shed.`;
  const rest = layers
    .filter(({ kind }) => kind !== "answered")
    .map(({ name, counts }) => `${share(sumOf(counts), total)} ${name}`);
  return `${share(answered, total)} of ${counted(total, "call")} were answered; ${rest.join(", ")}. None was shed.`;
};

export const loadChart = (stage: ChartSeries, id: string): Chart => {
  const { series, binS } = stage;
  const layers = layersOf(series);
  const offered = series.offered.map((n) => n / binS);
  const most = Math.max(...offered);
  const scale = linear(190, most, 4);
  const sums = (counts: readonly number[]): number[] => sumsOf(counts, stage.binsInRow);
  return overTime(stage, {
    id,
    title: "Offered, and what came of it.",
    finding: loadFinding(stage, layers),
    description: `Calls a second over ${seconds(stage.spanS)}, by the moment at which they were due, at most ${perSecond(most)}. A line shows what was offered; the layers under it add up to it: ${layers.map(({ name, counts }) => `${name} ${count(sumOf(counts))}`).join(", ")}.`,
    unit: "calls/s",
    scale,
    under: html`${layerShapes(stage, scale.y, scale.height)}`,
    lines: [{ text: "offered", shape: "line", path: stepPath(stage, offered, scale.y) }],
    keys: layers.map((layer) => ({ swatch: swatch(`fill ${layer.pattern ?? "answered"}`), text: layer.name })),
    columns: [["offered", sums(series.offered)], ...layers.map(({ name, counts }) => [name, sums(counts)] as const)],
  });
};

/** At the end of each bin: what had started less what had ended. */
export const inFlightByCallers = ({ series }: ChartSeries): number[] => {
  let open = 0;
  return series.started.map((started, i) => {
    open += started - (series.ended[i] ?? 0);
    return Math.max(0, open);
  });
};

const inFlightFinding = (
  callers: readonly number[],
  gauges: readonly (number | null)[],
  cap: number | null,
): string => {
  const seen = gauges.filter((value) => value !== null);
  const byGauges = seen.length === 0 ? "" : `, ${count(Math.max(...seen))} by the gauges`;
  const at = gauges.findLastIndex((value) => value !== null);
  const held = gauges[at] ?? 0;
  // A reading stands somewhere in its bin, the callers' number at its end.
  const isIdle = callers[at] === 0 && callers[at - 1] === 0;
  const end = held > 0 && isIdle ? ` At the last reading the gauges held ${count(held)}, the callers none.` : "";
  const full = seen.filter((value) => cap !== null && value >= cap).length;
  const readings =
    full === 0 ? ", and none of the readings was at the cap" : `; ${full} of ${seen.length} readings were at the cap`;
  const ofCap = cap === null ? "" : `; the cap is ${count(cap)}${seen.length === 0 ? "" : readings}`;
  return `At most ${count(Math.max(...callers))} calls were under way by the callers${byGauges}${ofCap}.${end}`;
};

/** Calls under way as the callers saw them, as the deployment's own gauges reported them, and the cap. */
const inFlightChart = (stage: ChartSeries, id: string): Chart => {
  const { series, binS, binsInRow } = stage;
  const callers = inFlightByCallers(stage);
  const gauges = series.gauges.in_flight ?? [];
  const cap = series.in_flight_cap;
  const seen = gauges.flatMap((value, i) => (value === null ? [] : [{ s: (i + 0.5) * binS, value }]));
  const most = Math.max(1, ...callers, ...seen.map(({ value }) => value));
  // A cap far above everything would flatten the chart.
  const shownCap = cap !== null && cap <= 4 * most ? cap : null;
  const scale = linear(110, Math.max(most, (shownCap ?? 0) * 1.05), 3, (n) => (Number.isInteger(n) ? count(n) : null));
  const gaugeLine = pathThrough(seen.map(({ s, value }) => [xOf(stage, s), Math.round(scale.y(value))]));
  return overTime(stage, {
    id,
    title: "In flight.",
    finding: inFlightFinding(callers, gauges, cap),
    description: `Calls under way over ${seconds(stage.spanS)}, as seen by the callers${seen.length === 0 ? "; the deployment shows no gauges" : " and by the deployment's gauges, read twice a second"}.`,
    unit: "calls",
    scale,
    limits: shownCap === null ? [] : [{ at: shownCap, text: `cap ${count(shownCap)}` }],
    lines: [
      { text: "by the callers", shape: "line callers", path: stepPath(stage, callers, scale.y) },
      { text: "by the gauges", shape: "line gauges", path: gaugeLine },
    ],
    columns: [
      ["by the callers", largestOf(callers, binsInRow)],
      ...(seen.length === 0 ? [] : [["by the gauges", largestOf(gauges, binsInRow)] as const]),
    ],
  });
};

/** From here on a bin's times are the generator's as well as the target's. */
const LATE_MS = 20;
const STRIP_HEIGHT = 56;

/** Bins in which more than a tenth of the calls left later than that. */
const doubtedBins = ({ series }: ChartSeries): boolean[] =>
  series.lag.map((bin) => (quantileMs(bin, 0.9) ?? 0) > LATE_MS);

const lagChart = (stage: ChartSeries, id: string): Chart => {
  const { lag: bins } = stage.series;
  const lag = bins.map((bin) => quantileMs(bin, 1));
  const most = Math.max(0.1, ...lag.map((ms) => ms ?? 0));
  const scale = linear(STRIP_HEIGHT, most, 2, (ms) => (ms === 0 ? "0" : milliseconds(ms)));
  const late = doubtedBins(stage).filter((isLate) => isLate).length;
  const p99 = milliseconds(quantileMs(mergeSparse(bins), 0.99) ?? 0);
  const rows = mergedOf(bins, stage.binsInRow);
  const cells = (p: number) => rows.map((row) => quantileMs(row, p)).map((ms) => ms && milliseconds(ms));
  return overTime(stage, {
    id,
    title: "The generator.",
    finding:
      late === 0
        ? `In time: 99 % of the calls left within ${p99} of their moment, the latest ${milliseconds(most)} after it.`
        : `Late: in ${late} of ${counted(lag.length, "bin")} more than a tenth of the calls left over ${milliseconds(LATE_MS)} after their moment, ${milliseconds(most)} at worst. Times there are the generator's too, and are drawn on grey.`,
    description: `How late the latest call of each bin left, over ${seconds(stage.spanS)}.`,
    scale,
    lines: [{ text: "latest call of a bin", shape: "line lag", path: stepPath(stage, lag, scale.y) }],
    columns: [
      ["p50", cells(0.5)],
      ["p99", cells(0.99)],
      ["latest", cells(1)],
    ],
  });
};

const CPU = [
  ["generator_cores", "line p50", "generator, in cores", (n) => `the generator used at most ${figure(n)} cores`],
  ["host_busy", "line p99", "machine busy, of 1", (n) => `the machine was at most ${Math.round(n * 100)} % busy`],
  [
    "host_steal",
    "line lag",
    "taken by the hypervisor, of 1",
    (n) => (n < 0.01 ? "the hypervisor took nothing" : `the hypervisor took at most ${Math.round(n * 100)} %`),
  ],
] as const satisfies readonly (readonly [SampleName, string, string, (most: number) => string])[];

const held = (values: readonly (number | null)[]): (number | null)[] => {
  let last: number | null = null;
  return values.map((value) => {
    last = value ?? last;
    return last;
  });
};

const cpuChart = (stage: ChartSeries, id: string): Chart | null => {
  const lines = CPU.flatMap(([name, shape, text, said]) => {
    const values = stage.series.generator[name] ?? [];
    const most = Math.max(...values.map((value) => value ?? Number.NEGATIVE_INFINITY));
    return Number.isFinite(most) ? [{ shape, text, values, most, said: said(most) }] : [];
  });
  if (lines.length === 0) return null;
  const scale = linear(STRIP_HEIGHT, Math.max(1, ...lines.map(({ most }) => most)), 2);
  const said = lines.map((one) => one.said).join(", ");
  return overTime(stage, {
    id,
    title: "CPU.",
    finding: `${said.charAt(0).toUpperCase()}${said.slice(1)}.`,
    description: `CPU of the generator's processes and of the machine over ${seconds(stage.spanS)}, read twice a second.`,
    scale,
    lines: lines.map(({ shape, text, values }) => ({ shape, text, path: stepPath(stage, held(values), scale.y) })),
    columns: lines.map(({ text, values }) => [text, largestOf(values, stage.binsInRow)] as const),
  });
};

const cheapness = ({ series }: ChartSeries): string | undefined => {
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
const isShedding = ({ series }: ChartSeries): boolean =>
  sumOf(countsOf(series, "shed")) >= sumOf(countsOf(series, "refused"));

/** In the order in which they stand; the first two also where not all charts are drawn. */
const MAPS = [
  ["latency", "latency", "Latency of answers, from the moment a call was due.", "answer", "answer"],
  ["refusals", "refusals", "Time to a refusal.", "refusal", null],
  ["first", "first_event", "Time to the first event of a stream.", "stream", "first event"],
  ["gaps", "gaps", "Gaps between two events of a stream.", "gap", null],
] as const;

const heatMaps = (stage: ChartSeries, limits: readonly TimeLimit[]): HeatMap[] =>
  MAPS.map(([name, buckets, title, one, limited]) => {
    const isRefusals = name === "refusals";
    return {
      name,
      title,
      one,
      buckets: stage.series[buckets],
      hue: isRefusals ? (isShedding(stage) ? "kind-shed" : "kind-refused") : "kind-answered",
      more: isRefusals ? cheapness(stage) : undefined,
      limits: limits.filter(({ of }) => of === limited),
      height: name === "latency" ? 130 : 100,
    };
  });

const objectivesOf = (text: string) => {
  try {
    return parseObjectives(text);
  } catch {
    return [];
  }
};

/** The limits of time that the target states for a stage: those of its claims `slo/<name>/<stage>`. */
const timeLimitsOf = (claims: readonly Claim[], stage: string): TimeLimit[] =>
  claims
    .filter((claim) => claim.stage === stage && claim.id.startsWith("slo/"))
    .flatMap((claim) => {
      const [, kind = ""] = claim.id.split("/");
      return objectivesOf(claim.expected).flatMap((objective) =>
        objective.kind === "time"
          ? [{ text: `${kind} ${objective.text}`, of: objective.of, quantile: objective.quantile, ms: objective.limit }]
          : [],
      );
    });

type StageCharts = {
  overTime: Chart[];
  others: Chart[];
  /** Of charts that would show nothing but this. */
  said: Pick<Chart, "title" | "finding">[];
};

export const chartsOfStage = (
  stage: ChartSeries,
  claims: readonly Claim[],
  id: string,
  which: Detail["folded"],
): StageCharts => {
  const limits = timeLimitsOf(claims, stage.series.stage);
  const doubted = doubtedBins(stage);
  const maps = heatMaps(stage, limits).slice(0, which === "all" ? 4 : 2);
  const lag = lagChart(stage, `${id}-lag`);
  const isLagDrawn = which === "all" || (which === "main" && doubted.includes(true));
  const isThere = (chart: Chart | null): chart is Chart => chart !== null;
  const timed = [
    loadChart(stage, `${id}-load`),
    ...maps.map((map) => heatMap(stage, id, map, doubted)),
    inFlightChart(stage, `${id}-flight`),
    isLagDrawn ? lag : null,
    which === "all" ? cpuChart(stage, `${id}-cpu`) : null,
  ].filter(isThere);
  const { latency, latency_from_sent: fromSent } = stage.fine;
  const curves = [
    { name: "from the moment due", buckets: mergeSparse(latency), shape: "line callers" as const },
    { name: "from sending", buckets: fromSent, shape: "line gauges" as const },
  ];
  const answers = limits.filter(({ of }) => of === "answer");
  const others = [
    percentilePlot({ id: `${id}-percentiles`, title: "Latency by percentile." }, curves, answers),
    organizationsChart(stage, `${id}-orgs`),
  ];
  return {
    overTime: timed,
    others: which === "all" ? others.filter(isThere) : [],
    said: isLagDrawn ? [] : [lag],
  };
};

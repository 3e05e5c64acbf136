/** The charts of a stage and what each shows: load, durations, calls in flight, and the generator itself. */
import type { Claim } from "../../history/run-document.ts";
import { inRows, largestOf, mergeSparse, quantileMs, type SparseBuckets } from "../../history/series.ts";
import { sumOf } from "../../history/statistics/statistics.ts";
import { count, counted, figure, milliseconds, perSecond, seconds, share } from "../figures.ts";
import { html } from "../page/markup.ts";
import type { ChartSeries, Detail, Values } from "./chart-series.ts";
import { heatMap, hiddenSentence, type PercentileCurve, percentilePlot, type TimeLimit } from "./durations.ts";
import { faultEffect, faultSentence } from "./faults.ts";
import { organizationsChart } from "./found-charts.ts";
import { type Chart, linear, overTime } from "./frame.ts";
import { countsOf, type Layer, layerAreas, layerKeys, layerShape, layersOf } from "./layers.ts";

/** Seconds around the first shed call in which the offered rate is read. */
const AROUND_S = 1;

const sheddingFinding = ({ series, binS, bins }: ChartSeries, shed: readonly Layer[]): string => {
  const first = Math.min(...shed.map(({ counts }) => counts.findIndex((n) => n > 0)));
  const starter = shed.find(({ counts }) => (counts[first] ?? 0) > 0) as Layer;
  const reach = Math.max(1, Math.round(AROUND_S / binS / 2));
  const around = series.offered.slice(Math.max(0, first - reach), first + reach + 1);
  const when = first <= bins * 0.02 ? "from the start" : `${seconds(Number((first * binS).toFixed(1)))} in`;
  const after = share(sumOf(shed.flatMap(({ counts }) => counts.slice(first))), sumOf(series.offered.slice(first)));
  const each = shed.map(({ name, counts }) => `${shed.length === 1 ? "all" : count(sumOf(counts))} ${name}`).join(", ");
  return `${starter.name} begins at ${perSecond(sumOf(around) / (around.length * binS))} offered, ${when}; from then on ${after} of the calls are shed (${each}).`;
};

const loadFinding = (stage: ChartSeries, layers: readonly Layer[]): string => {
  const fault = faultEffect(stage);
  if (fault !== null) return faultSentence(fault);
  const shed = layers.filter(({ kind }) => kind === "shed");
  if (shed.length > 0) return sheddingFinding(stage, shed);
  const total = sumOf(stage.series.offered);
  const answered = sumOf(countsOf(stage.series, "answered"));
  if (answered === total) return `All ${counted(total, "call")} were answered, none was shed.`;
  const rest = layers
    .filter(({ kind }) => kind !== "answered")
    .map(({ name, counts }) => `${share(sumOf(counts), total)} ${name}`);
  return `${share(answered, total)} of ${counted(total, "call")} were answered; ${rest.join(", ")}. None was shed.`;
};

export const loadChart = (stage: ChartSeries, id: string): Chart => {
  const { series, binS, binsInRow } = stage;
  const layers = layersOf(series);
  const offered = series.offered.map((n) => n / binS);
  const most = Math.max(...offered);
  const scale = linear(190, most, 4);
  const columns = [{ name: "offered", counts: series.offered }, ...layers];
  return overTime(stage, {
    id,
    title: "Offered, and what came of it.",
    finding: loadFinding(stage, layers),
    description: `Calls a second over ${seconds(stage.spanS)}, by the moment at which they were due, at most ${perSecond(most)}. A line shows what was offered; the layers under it add up to it: ${layers.map(({ name, counts }) => `${name} ${count(sumOf(counts))}`).join(", ")}.`,
    unit: "calls/s",
    scale,
    under: html`${layerAreas(stage, scale.y, scale.height).map(layerShape)}`,
    lines: [{ text: "offered", shape: "line", values: offered }],
    keys: layerKeys(layers),
    columns: columns.map(({ name, counts }) => [name, inRows(counts, binsInRow, sumOf)]),
  });
};

/** Calls in flight at the end of each bin: all that had started less all that had ended. */
export const inFlightByCallers = ({ series }: ChartSeries): number[] => {
  let open = 0;
  return series.started.map((started, i) => {
    open += started - (series.ended[i] ?? 0);
    return Math.max(0, open);
  });
};

const inFlightFinding = (callers: readonly number[], gauges: Values, cap: number | null): string => {
  const seen = gauges.filter((value) => value !== null);
  const byGauges = seen.length === 0 ? "" : `, ${count(Math.max(...seen))} by the gauges`;
  const at = gauges.findLastIndex((value) => value !== null);
  const held = gauges[at] ?? 0;
  // A reading lies somewhere in its bin, the callers' number at the bin's end.
  const isIdle = callers[at] === 0 && callers[at - 1] === 0;
  const end = held > 0 && isIdle ? ` At the last reading the gauges held ${count(held)}, the callers none.` : "";
  const full = seen.filter((value) => cap !== null && value >= cap).length;
  const readings =
    full === 0 ? ", and none of the readings was at the cap" : `; ${full} of ${seen.length} readings were at the cap`;
  const ofCap = cap === null ? "" : `; the cap is ${count(cap)}${seen.length === 0 ? "" : readings}`;
  return `At most ${count(Math.max(...callers))} calls were under way by the callers${byGauges}${ofCap}.${end}`;
};

/** Fills gaps with the last reading: readings come only twice a second. */
const held = (values: Values): Values => {
  let last: number | null = null;
  return values.map((value) => {
    last = value ?? last;
    return last;
  });
};

/** Calls in flight as callers saw them and as the deployment's gauges reported them, and the cap. */
const inFlightChart = (stage: ChartSeries, id: string): Chart => {
  const { series, binsInRow, spanS } = stage;
  const callers = inFlightByCallers(stage);
  const gauges = series.gauges.in_flight ?? [];
  const cap = series.in_flight_cap;
  const hasGauges = gauges.some((value) => value !== null);
  const most = Math.max(1, ...callers, ...gauges.map((value) => value ?? 0));
  // A cap far above everything would flatten the chart.
  const shownCap = cap !== null && cap <= 4 * most ? cap : null;
  return overTime(stage, {
    id,
    title: "In flight.",
    finding: inFlightFinding(callers, gauges, cap),
    description: `Calls under way over ${seconds(spanS)}, as seen by the callers${hasGauges ? " and by the deployment's gauges, read twice a second" : "; the deployment shows no gauges"}.`,
    unit: "calls",
    scale: linear(110, Math.max(most, (shownCap ?? 0) * 1.05), 3, (n) => (Number.isInteger(n) ? count(n) : null)),
    limits: shownCap === null ? [] : [{ limit: shownCap, text: `cap ${count(shownCap)}` }],
    lines: [
      { text: "by the callers", shape: "line callers", values: callers },
      { text: "by the gauges", shape: "line gauges", values: held(gauges) },
    ],
    columns: Object.entries({
      "by the callers": inRows(callers, binsInRow, largestOf),
      ...(hasGauges && { "by the gauges": inRows(gauges, binsInRow, largestOf) }),
    }),
  });
};

/** From this lag on, the generator itself affects the times of a bin. */
const LATE_MS = 20;
const STRIP_HEIGHT = 56;

/** Bins in which more than a tenth of the calls left later than `LATE_MS`. */
const doubtedBins = ({ series }: ChartSeries) => series.lag.map((bin) => (quantileMs(bin, 0.9) ?? 0) > LATE_MS);

const lagChart = (stage: ChartSeries, id: string, doubted: readonly boolean[]): Chart => {
  const { lag: bins } = stage.series;
  const lag = bins.map((bin) => quantileMs(bin, 1));
  const most = Math.max(0.1, ...lag.map((ms) => ms ?? 0));
  const late = doubted.filter((isLate) => isLate).length;
  const p99 = milliseconds(quantileMs(mergeSparse(bins), 0.99) ?? 0);
  const rows = inRows(bins, stage.binsInRow, mergeSparse);
  const cells = (p: number) => rows.map((row) => quantileMs(row, p)).map((ms) => ms && milliseconds(ms));
  return overTime(stage, {
    id,
    title: "The generator.",
    finding:
      late === 0
        ? `In time: 99 % of the calls left within ${p99} of their moment, the latest ${milliseconds(most)} after it.`
        : `Late: in ${late} of ${counted(lag.length, "bin")} more than a tenth of the calls left over ${milliseconds(LATE_MS)} after their moment, ${milliseconds(most)} at worst. Times there are the generator's too, and are drawn on grey.`,
    description: `How late the latest call of each bin left, over ${seconds(stage.spanS)}.`,
    scale: linear(STRIP_HEIGHT, most, 2, (ms) => (ms === 0 ? "0" : milliseconds(ms))),
    lines: [{ text: "latest call of a bin", shape: "line lag", values: lag }],
    columns: Object.entries({ p50: cells(0.5), p99: cells(0.99), latest: cells(1) }),
  });
};

// biome-ignore format: a row is a line
const CPU = [
  ["generator_cores", "line p50", "generator, in cores", (n: number) => `the generator used at most ${figure(n)} cores`],
  ["host_busy", "line p99", "machine busy, of 1", (n: number) => `the machine was at most ${Math.round(n * 100)} % busy`],
  ["host_steal", "line lag", "taken by the hypervisor, of 1", (n: number) => n < 0.01 ? "the hypervisor took nothing" : `the hypervisor took at most ${Math.round(n * 100)} %`],
] as const;

const cpuChart = (stage: ChartSeries, id: string): Chart | null => {
  const lines = CPU.flatMap(([name, shape, text, said]) => {
    const values = stage.series.generator[name] ?? [];
    const most = Math.max(...values.map((value) => value ?? Number.NEGATIVE_INFINITY));
    return Number.isFinite(most) ? [{ shape, text, values, most, said: said(most) }] : [];
  });
  if (lines.length === 0) return null;
  return overTime(stage, {
    id,
    title: "CPU.",
    finding: `${lines.map(({ said }) => said).join(", ")}.`.replace(/^t/, "T"),
    description: `CPU of the generator's processes and of the machine over ${seconds(stage.spanS)}, read twice a second.`,
    scale: linear(STRIP_HEIGHT, Math.max(1, ...lines.map(({ most }) => most)), 2),
    lines: lines.map(({ shape, text, values }) => ({ shape, text, values: held(values) })),
    columns: lines.map(({ text, values }) => [text, inRows(values, stage.binsInRow, largestOf)] as const),
  });
};

const cheapness = ({ series }: ChartSeries): string => {
  const median = (bins: readonly SparseBuckets[]): number => quantileMs(mergeSparse(bins), 0.5) ?? Number.NaN;
  const times = median(series.latency) / median(series.refusals);
  if (Number.isNaN(times)) return "";
  return times >= 1.5
    ? ` At the median an answer takes ${times >= 10 ? times.toFixed(0) : times.toFixed(1)} times as long.`
    : " A refusal takes as long as an answer, or longer.";
};

/** Maps in the order of the page; if not all charts are drawn, only the first two are. */
const MAPS = [
  ["latency", "latency", "Latency of answers, from the moment a call was due.", "answer", "answer"],
  ["refusals", "refusals", "Time to a refusal.", "refusal", null],
  ["first", "first_event", "Time to the first event of a stream.", "stream", "first event"],
  ["gaps", "gaps", "Gaps between two events of a stream.", "gap", null],
] as const;

/** The limits of times that the target file states for a stage, from its claims `slo/<name>/<stage>`. */
const timeLimitsOf = (claims: readonly Claim[], stage: string): TimeLimit[] =>
  claims.flatMap(({ id, stage: own, objectives = [] }) => {
    const times = own === stage ? objectives.filter((objective) => objective.kind === "time") : [];
    return times.map((objective) => ({ ...objective, text: `${id.split("/")[1] ?? ""} ${objective.text}` }));
  });

const percentiles = ({ fine }: ChartSeries, id: string, limits: readonly TimeLimit[]): Chart | null => {
  const [due, sent] = [mergeSparse(fine.latency), fine.latency_from_sent];
  const curves: PercentileCurve[] = [
    { name: "from the moment due", buckets: due, shape: "line callers" },
    { name: "from sending", buckets: sent, shape: "line gauges" },
  ];
  return percentilePlot({ id, finding: hiddenSentence(due, sent) }, curves, limits);
};

const there = (charts: readonly (Chart | null)[]): Chart[] => charts.filter((chart) => chart !== null);

/** Returns charts over time, other charts, and charts of which only the sentence is shown (`said`). */
export const chartsOfStage = (stage: ChartSeries, claims: readonly Claim[], id: string, which: Detail["folded"]) => {
  const isWhole = which === "all";
  const limits = timeLimitsOf(claims, stage.series.stage);
  const limitsOf = (one: string | null) => limits.filter(({ of }) => of === one);
  const doubted = doubtedBins(stage);
  const [shed = 0, refused = 0] = (["shed", "refused"] as const).map((kind) => sumOf(countsOf(stage.series, kind)));
  const maps = MAPS.slice(0, isWhole ? 4 : 2).map(([name, buckets, title, one, limited]) => {
    const isRefusals = name === "refusals";
    const map = {
      ...{ id: `${id}-${name}`, title, one, bins: stage.series[buckets], limits: limitsOf(limited) },
      hue: `kind-${!isRefusals ? "answered" : shed >= refused ? "shed" : "refused"}` as const,
      more: isRefusals ? cheapness(stage) : "",
      height: name === "latency" ? 130 : 100,
    };
    return heatMap(stage, map, doubted);
  });
  const lag = lagChart(stage, `${id}-lag`, doubted);
  const isLagDrawn = isWhole || (which === "main" && doubted.includes(true));
  const always = [loadChart(stage, `${id}-load`), ...maps, inFlightChart(stage, `${id}-flight`)];
  const others = (): (Chart | null)[] => [
    percentiles(stage, `${id}-percentiles`, limitsOf("answer")),
    organizationsChart(stage, `${id}-orgs`),
  ];
  return {
    overTime: there([...always, isLagDrawn ? lag : null, isWhole ? cpuChart(stage, `${id}-cpu`) : null]),
    others: isWhole ? there(others()) : [],
    said: isLagDrawn ? [] : [lag],
  };
};

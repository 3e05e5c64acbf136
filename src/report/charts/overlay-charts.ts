/** Two runs of one stage on the same axes: the earlier one dashed, the later one whole. */
import { sumOf } from "../../history/series.ts";
import { mergeSparse, quantileMs } from "../../history/statistics/log-buckets.ts";
import { count, milliseconds, share } from "../figures.ts";
import { type ChartSeries, rowTimes, stepPath } from "./chart-series.ts";
import type { Chart } from "./frame.ts";
import { countsOf } from "./layers.ts";
import { type Line, linear, logarithmic, overTime, type Scale } from "./over-time.ts";
import { percentilePlot } from "./percentile-plot.ts";
import { quantileIfEnough, quantileOverTime } from "./quantile-line.ts";

type Side = { name: string; stage: ChartSeries };
export type Sides = readonly [Side, Side];

const SHAPES = ["line gauges", "line callers"] as const;
const HEIGHT = 150;

/** The axis that both fit on, without the faults of one of them. */
export const sharedAxis = ([a, b]: Sides): ChartSeries => ({
  ...(a.stage.spanS >= b.stage.spanS ? a.stage : b.stage),
  bands: [],
  marks: [],
});

/** A line of each side on the axis of both; it ends where its run does. */
const linesOf = (
  sides: Sides,
  axis: ChartSeries,
  values: readonly (readonly (number | null)[])[],
  { y }: Scale,
): Line[] =>
  sides.map(({ name, stage }, i) => ({
    text: name,
    shape: SHAPES[i] ?? "line callers",
    path: stepPath({ ...stage, spanS: axis.spanS }, [...(values[i] ?? []), null], y),
  }));

/** Values of one side, put into the rows of the table of both; its bins may be of another width. */
const inRows = <T>(axis: ChartSeries, { stage }: Side, values: readonly T[]): T[][] => {
  const rows: T[][] = rowTimes(axis).map(() => []);
  for (const [i, value] of values.entries()) {
    rows[Math.floor((i * stage.binS + 1e-6) / (axis.binS * axis.binsInRow))]?.push(value);
  }
  return rows;
};

const answeredChart = (sides: Sides, id: string): Chart => {
  const axis = sharedAxis(sides);
  const rates = sides.map(({ stage }) => countsOf(stage.series, "answered").map((n) => n / stage.binS));
  const scale = linear(HEIGHT, Math.max(1, ...rates.flat()), 4);
  const said = sides.map(
    ({ name, stage }) =>
      `the ${name} run answered ${share(sumOf(countsOf(stage.series, "answered")), sumOf(stage.series.offered))} of ${count(sumOf(stage.series.offered))} calls`,
  );
  return overTime(axis, {
    id,
    title: "Answered.",
    finding: `${said.join("; ").replace(/^t/, "T")}.`,
    description: "Answered calls a second by the moment at which they were due, a line for each run.",
    unit: "calls/s",
    scale,
    lines: linesOf(sides, axis, rates, scale),
    columns: sides.map((side) => [
      `answered in ${side.name}`,
      inRows(axis, side, countsOf(side.stage.series, "answered")).map(sumOf),
    ]),
  });
};

/** `null` where no run has enough answers for a median. */
const medianChart = (sides: Sides, id: string): Chart | null => {
  const axis = sharedAxis(sides);
  const medians = sides.map(({ stage }) => quantileOverTime(stage.series.latency, 0.5));
  const all = medians.flat().filter((ms) => ms !== null);
  if (all.length === 0) return null;
  const scale = logarithmic(HEIGHT, Math.min(...all) * 0.9, Math.max(...all) * 1.1);
  const said = sides.map(({ name, stage }) => {
    const p50 = quantileMs(mergeSparse(stage.series.latency), 0.5);
    return p50 === null ? `${name}: no answers` : `${name} ${milliseconds(p50)}`;
  });
  return overTime(axis, {
    id,
    title: "Median latency.",
    finding: `Over the whole stage: ${said.join(", ")}.`,
    description: "The median of whole answers from the moment a call was due, a line for each run, logarithmic.",
    scale,
    lines: linesOf(sides, axis, medians, scale),
    columns: sides.map((side) => {
      const rows = inRows(axis, side, side.stage.series.latency).map(mergeSparse);
      return [`p50 in ${side.name}`, rows.map((row) => quantileIfEnough(row, 0.5)).map((ms) => ms && milliseconds(ms))];
    }),
  });
};

const percentiles = (sides: Sides, id: string): Chart | null => {
  const curves = sides.map(({ name, stage }, i) => ({
    name,
    buckets: mergeSparse(stage.fine.latency),
    shape: SHAPES[i] ?? "line callers",
  }));
  const p = [0.999, 0.99, 0.9, 0.5].find((one) =>
    curves.every(({ buckets }) => quantileIfEnough(buckets, one) !== null),
  );
  const said = curves.map(({ name, buckets }) => `${name} ${milliseconds(quantileMs(buckets, p ?? 0.5) ?? 0)}`);
  const finding =
    p === undefined ? "Too few answers to compare." : `p${Number((p * 100).toFixed(1))}: ${said.join(", ")}.`;
  return percentilePlot({ id, title: "Latency by percentile.", finding }, [...curves].reverse(), []);
};

export const overlayCharts = (sides: Sides, id: string): { overTime: Chart[]; others: Chart[] } => {
  const isThere = (chart: Chart | null): chart is Chart => chart !== null;
  return {
    overTime: [answeredChart(sides, `${id}-answered`), medianChart(sides, `${id}-median`)].filter(isThere),
    others: [percentiles(sides, `${id}-percentiles`)].filter(isThere),
  };
};

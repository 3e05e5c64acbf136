/** Two runs of one stage on the same axes: the earlier one dashed, the later one whole. */
import { sumOf } from "../../history/series.ts";
import { mergeSparse, quantileMs, type SparseBuckets } from "../../history/statistics/log-buckets.ts";
import { count, milliseconds, share } from "../figures.ts";
import { type ChartSeries, rowTimes, type Values } from "./chart-series.ts";
import type { Cell, Chart } from "./frame.ts";
import { countsOf } from "./layers.ts";
import { linear, logarithmic, overTime, type Scale } from "./over-time.ts";
import { percentilePlot, quantileCell, quantileIfEnough, quantileOverTime } from "./percentile-plot.ts";

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

/** A line and a column of each side; the line ends where its run does. `cell` makes one of what falls into a row. */
const overBoth = <T>(
  sides: Sides,
  about: Pick<Chart, "id" | "title" | "finding" | "description" | "unit"> & { scale: Scale },
  values: readonly Values[],
  [column, bins, cell]: readonly [name: string, bins: (stage: ChartSeries) => readonly T[], cell: (row: T[]) => Cell],
): Chart => {
  const axis = sharedAxis(sides);
  return overTime(axis, {
    ...about,
    lines: sides.map(({ name, stage }, i) => ({
      ...{ text: name, shape: SHAPES[i as 0 | 1], values: values[i] as Values },
      of: { ...stage, spanS: axis.spanS },
    })),
    columns: sides.map(({ name, stage }) => {
      const rows: T[][] = rowTimes(axis).map(() => []);
      // Bins of one side may be of another width.
      for (const [i, value] of bins(stage).entries()) {
        rows[Math.floor((i * stage.binS + 1e-6) / (axis.binS * axis.binsInRow))]?.push(value);
      }
      return [`${column} in ${name}`, rows.map(cell)];
    }),
  });
};

const answeredIn = ({ series }: ChartSeries): number[] => countsOf(series, "answered");

const answeredChart = (sides: Sides, id: string): Chart => {
  const rates = sides.map(({ stage }) => answeredIn(stage).map((n) => n / stage.binS));
  const said = sides.map(({ name, stage }) => {
    const offered = sumOf(stage.series.offered);
    return `the ${name} run answered ${share(sumOf(answeredIn(stage)), offered)} of ${count(offered)} calls`;
  });
  const about = {
    id,
    title: "Answered.",
    finding: `${said.join("; ").replace(/^t/, "T")}.`,
    description: "Answered calls a second by the moment at which they were due, a line for each run.",
    unit: "calls/s",
    scale: linear(HEIGHT, Math.max(1, ...rates.flat()), 4),
  };
  return overBoth(sides, about, rates, ["answered", answeredIn, sumOf]);
};

/** `null` where no run has enough answers for a median. */
const medianChart = (sides: Sides, id: string): Chart | null => {
  const medians = sides.map(({ stage }) => quantileOverTime(stage.series.latency, 0.5));
  const all = medians.flat().filter((ms) => ms !== null);
  if (all.length === 0) return null;
  const said = sides.map(({ name, stage }) => {
    const p50 = quantileMs(mergeSparse(stage.series.latency), 0.5);
    return p50 === null ? `${name}: no answers` : `${name} ${milliseconds(p50)}`;
  });
  const about = {
    id,
    title: "Median latency.",
    finding: `Over the whole stage: ${said.join(", ")}.`,
    description: "The median of whole answers from the moment a call was due, a line for each run, logarithmic.",
    scale: logarithmic(HEIGHT, Math.min(...all) * 0.9, Math.max(...all) * 1.1),
  };
  const cell = (row: SparseBuckets[]): Cell => quantileCell(mergeSparse(row), 0.5);
  return overBoth(sides, about, medians, ["p50", ({ series }) => series.latency, cell]);
};

const percentiles = (sides: Sides, id: string): Chart | null => {
  const curves = sides.map(({ name, stage }, i) => {
    return { name, buckets: mergeSparse(stage.fine.latency), shape: SHAPES[i as 0 | 1] };
  });
  const p = [0.999, 0.99, 0.9, 0.5].find((one) => curves.every(({ buckets }) => quantileIfEnough(buckets, one)));
  const said = curves.map(({ name, buckets }) => `${name} ${milliseconds(quantileMs(buckets, p ?? 0.5) ?? 0)}`);
  const finding =
    p === undefined ? "Too few answers to compare." : `p${Number((p * 100).toFixed(1))}: ${said.join(", ")}.`;
  return percentilePlot({ id, finding }, curves.reverse(), []);
};

export const overlayCharts = (sides: Sides, id: string): { overTime: Chart[]; others: Chart[] } => {
  const there = (...charts: (Chart | null)[]): Chart[] => charts.filter((chart) => chart !== null);
  return {
    overTime: there(answeredChart(sides, `${id}-answered`), medianChart(sides, `${id}-median`)),
    others: there(percentiles(sides, `${id}-percentiles`)),
  };
};

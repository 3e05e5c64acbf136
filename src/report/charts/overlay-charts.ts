/** Two runs of one stage on the same axes: the earlier one dashed, the later one whole. */
import { scaleLinear, scaleLog } from "d3-scale";
import { sumOf } from "../../history/series.ts";
import { mergeSparse, quantileMs, type SparseBuckets } from "../../history/statistics/log-buckets.ts";
import { count, figure, share } from "../figures.ts";
import { html } from "../page/markup.ts";
import { milliseconds } from "./chart-figures.ts";
import type { Course } from "./course.ts";
import type { Chart, Key } from "./frame.ts";
import { layersOf } from "./layers.ts";
import { logTicks } from "./log-ticks.ts";
import { percentilePlot } from "./percentile-plot.ts";
import { quantileIfEnough, quantileOverTime } from "./quantile-line.ts";
import { lineSwatch } from "./swatches.ts";
import { rowTimes, stepPath, timeTicks } from "./time-axis.ts";

/** A run of a stage, with what it is called. */
type Side = { name: string; course: Course };
/** Earlier, later. */
export type Sides = readonly [Side, Side];

const SHAPES = ["line gauges", "line callers"] as const;
const HEIGHT = 150;

const key = (shape: "line callers" | "line gauges", text: string): Key => ({ swatch: lineSwatch(shape), text });

/** The axis that both fit on. */
export const sharedAxis = ([a, b]: Sides): Course => (a.course.spanS >= b.course.spanS ? a.course : b.course);

/** A line of one side on the axis of both; it ends where its run does. */
const path = (
  axis: Course,
  { course }: Side,
  values: readonly (number | null)[],
  y: (value: number) => number,
): string => stepPath({ ...course, spanS: axis.spanS }, [...values, null], y);

/** Values of one side, put into the rows of the table of both; its bins may be of another width. */
const inRows = <T>(axis: Course, { course }: Side, values: readonly T[]): T[][] => {
  const rows: T[][] = rowTimes(axis).map(() => []);
  for (const [i, value] of values.entries()) {
    rows[Math.floor((i * course.binS + 1e-6) / (axis.binS * axis.binsInRow))]?.push(value);
  }
  return rows;
};

const answeredOf = ({ series }: Course): number[] => {
  const layers = layersOf(series).filter(({ kind }) => kind === "answered");
  return series.offered.map((_, i) => sumOf(layers.map(({ counts }) => counts[i] ?? 0)));
};

const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const answeredChart = (sides: Sides, id: string): Chart => {
  const axis = sharedAxis(sides);
  const rates = sides.map(({ course }) => answeredOf(course).map((n) => n / course.binS));
  const y = scaleLinear([0, Math.max(1, ...rates.flat())], [HEIGHT, 0]).nice(4);
  const top = y.domain()[1] as number;
  const said = sides.map(({ name, course }) => {
    const offered = sumOf(course.series.offered);
    return `the ${name} run answered ${share(sumOf(answeredOf(course)), offered)} of ${count(offered)} calls`;
  });
  const cells = sides.map((side) => inRows(axis, side, answeredOf(side.course)).map(sumOf));
  const times = rowTimes(axis);
  return {
    id,
    height: HEIGHT,
    unit: "calls/s",
    isOverTime: true,
    title: "Answered.",
    finding: `${sentence(said.join("; "))}.`,
    description: "Answered calls a second by the moment at which they were due, a line for each run.",
    across: timeTicks(axis),
    up: y.ticks(4).map((value) => ({ at: 1 - value / top, text: figure(value) })),
    drawn: html`${sides.map((side, i) => html`<path class="${SHAPES[i] as string}" d="${path(axis, side, rates[i] ?? [], y)}"/>`)}`,
    keys: sides.map(({ name }, i) => key(SHAPES[i] ?? "line callers", name)),
    table: {
      head: ["from", ...sides.map(({ name }) => `answered in ${name}`)],
      rows: times.map((time, i) => [time, ...cells.map((column) => column[i] ?? null)]),
      rowS: axis.binS * axis.binsInRow,
    },
  };
};

/** `null` where no run has enough answers for a median. */
const medianChart = (sides: Sides, id: string): Chart | null => {
  const axis = sharedAxis(sides);
  const lines = sides.map(({ course }) => quantileOverTime(course.series.latency, 0.5));
  const all = lines.flat().filter((ms) => ms !== null);
  if (all.length === 0) return null;
  const y = scaleLog([Math.min(...all) * 0.9, Math.max(...all) * 1.1], [HEIGHT, 0]);
  const [low = 1, high = 1] = y.domain();
  const ticks = logTicks(low, high);
  const said = sides.map(({ name, course }) => {
    const p50 = quantileMs(mergeSparse(course.series.latency), 0.5);
    return p50 === null ? `${name}: no answers` : `${name} ${milliseconds(p50)}`;
  });
  const rows = sides.map((side) => inRows(axis, side, side.course.series.latency).map(mergeSparse));
  const cell = (bin: SparseBuckets | undefined): string | null => {
    const ms = bin === undefined ? null : quantileIfEnough(bin, 0.5);
    return ms === null ? null : milliseconds(ms);
  };
  return {
    id,
    height: HEIGHT,
    unit: "",
    isOverTime: true,
    title: "Median latency.",
    finding: `Over the whole stage: ${said.join(", ")}.`,
    description: "The median of whole answers from the moment a call was due, a line for each run, logarithmic.",
    across: timeTicks(axis),
    up: ticks.map((ms) => ({ at: y(ms) / HEIGHT, text: milliseconds(ms) })),
    drawn: html`${sides.map((side, i) => html`<path class="${SHAPES[i] as string}" d="${path(axis, side, lines[i] ?? [], y)}"/>`)}`,
    keys: sides.map(({ name }, i) => key(SHAPES[i] ?? "line callers", name)),
    table: {
      head: ["from", ...sides.map(({ name }) => `p50 in ${name}`)],
      rows: rowTimes(axis).map((time, i) => [time, ...rows.map((column) => cell(column[i]))]),
      rowS: axis.binS * axis.binsInRow,
    },
  };
};

const percentiles = (sides: Sides, id: string): Chart | null => {
  const curves = sides.map(({ name, course }, i) => ({
    name,
    buckets: mergeSparse(course.fine.latency),
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

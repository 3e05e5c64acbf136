/** Offered against what came of it: a line of what was offered, and under it every call by its outcome. */
import { scaleLinear } from "d3-scale";
import { sumsOf } from "../../history/coarser-series.ts";
import { sumOf } from "../../history/series.ts";
import { count, counted, figure, share } from "../figures.ts";
import { html } from "../page/markup.ts";
import { perSecond, seconds } from "./chart-figures.ts";
import type { Course } from "./course.ts";
import { courseOfFault } from "./fault-course.ts";
import type { Chart } from "./frame.ts";
import { type Layer, layerShapes, layerSwatch, layersOf } from "./layers.ts";
import { lineSwatch } from "./swatches.ts";
import { areaPath, bandLabels, bandShapes, rowTimes, stepPath, timeTicks } from "./time-axis.ts";

const HEIGHT = 190;
/** Seconds around the first shed call in which the offered rate is read. */
const AROUND_S = 1;

const rateAround = ({ series, binS, bins }: Course, at: number): number => {
  const reach = Math.max(1, Math.round(AROUND_S / binS / 2));
  const [from, to] = [Math.max(0, at - reach), Math.min(bins, at + reach + 1)];
  return sumOf(series.offered.slice(from, to)) / ((to - from) * binS);
};

const restOf = (layers: readonly Layer[], total: number): string =>
  layers
    .filter(({ kind }) => kind !== "answered")
    .map(({ name, counts }) => `${share(sumOf(counts), total)} ${name}`)
    .join(", ");

const sheddingFinding = (course: Course, shed: readonly Layer[]): string => {
  const { series, binS } = course;
  const first = Math.min(...shed.map(({ counts }) => counts.findIndex((n) => n > 0)));
  const starter = shed.find(({ counts }) => (counts[first] ?? 0) > 0) as Layer;
  const offered = sumOf(series.offered.slice(first));
  const when = first <= course.bins * 0.02 ? "from the start" : `${seconds(Number((first * binS).toFixed(1)))} in`;
  const after = sumOf(shed.flatMap(({ counts }) => counts.slice(first)));
  const all =
    shed.length === 1
      ? `all ${starter.name}`
      : shed.map(({ name, counts }) => `${count(sumOf(counts))} ${name}`).join(", ");
  return `${starter.name} begins at ${perSecond(rateAround(course, first))} offered, ${when}; from then on ${share(after, offered)} of the calls are shed (${all}).`;
};

const findingOf = (course: Course, layers: readonly Layer[]): string => {
  const fault = courseOfFault(course);
  if (fault !== null) return fault.sentence;
  const total = sumOf(course.series.offered);
  const shed = layers.filter(({ kind }) => kind === "shed");
  if (shed.length > 0) return sheddingFinding(course, shed);
  const answered = sumOf(layers.filter(({ kind }) => kind === "answered").flatMap(({ counts }) => counts));
  if (answered === total) return `All ${counted(total, "call")} were answered, none was shed.`;
  return `${share(answered, total)} of ${counted(total, "call")} were answered; ${restOf(layers, total)}. None was shed.`;
};

export const loadChart = (course: Course, id: string): Chart => {
  const { series, binS, binsInRow } = course;
  const layers = layersOf(series);
  const offered = series.offered.map((n) => n / binS);
  const most = Math.max(...offered);
  const y = scaleLinear([0, most], [HEIGHT, 0]).nice(4);
  const top = y.domain()[1] as number;
  // Each layer reaches to the bottom, and those beneath it are drawn over it: half of the outlines are needed.
  const under = series.offered.map(() => 0);
  const shapes = layers.map((layer) => {
    const tops = layer.counts.map((n, i) => {
      under[i] = (under[i] as number) + n;
      return n === 0 ? null : (under[i] as number) / binS;
    });
    return layerShapes(layer, areaPath(course, tops, y, HEIGHT));
  });
  const rows = rowTimes(course);
  const sums = (counts: readonly number[]): number[] => sumsOf(counts, binsInRow);
  const columns = [series.offered, ...layers.map(({ counts }) => counts)].map(sums);
  const finding = findingOf(course, layers);
  return {
    id,
    finding,
    height: HEIGHT,
    unit: "calls/s",
    isOverTime: true,
    title: "Offered, and what came of it.",
    description: `Calls a second over ${seconds(course.spanS)}, by the moment at which they were due, at most ${perSecond(most)}. A line shows what was offered; the layers under it add up to it: ${layers.map(({ name, counts }) => `${name} ${count(sumOf(counts))}`).join(", ")}.`,
    across: timeTicks(course),
    up: y.ticks(4).map((value) => ({ at: 1 - value / top, text: figure(value) })),
    drawn: html`${shapes.reverse()}${bandShapes(course, HEIGHT)}<path class="line" d="${stepPath(course, offered, y)}"/>`,
    labels: html`${bandLabels(course)}`,
    keys: [
      { swatch: lineSwatch("line"), text: "offered" },
      ...layers.map((layer) => ({ swatch: layerSwatch(layer), text: layer.name })),
    ],
    table: {
      head: ["from", "offered", ...layers.map(({ name }) => name)],
      rows: rows.map((time, i) => [time, ...columns.map((column) => column[i] ?? 0)]),
      rowS: binS * binsInRow,
    },
  };
};

/**
 * How long calls took, as a map: across is time, up is duration (logarithmic), the stronger the colour the more calls.
 * Quantiles run over it where there are enough calls for them.
 */
import { scaleLog } from "d3-scale";
import { mergedOf } from "../../history/coarser-series.ts";
import {
  bucketFromUs,
  countOf,
  mergeSparse,
  quantileMs,
  type SparseBuckets,
} from "../../history/statistics/log-buckets.ts";
import { count, counted } from "../figures.ts";
import { html, type Markup } from "../page/markup.ts";
import { milliseconds, seconds } from "./chart-figures.ts";
import type { Course } from "./course.ts";
import { type Chart, inFrame, WIDTH } from "./frame.ts";
import { logTicks } from "./log-ticks.ts";
import { quantileIfEnough, quantileOverTime } from "./quantile-line.ts";
import { doubtSwatch, type Hue, hueSwatch, lineSwatch } from "./swatches.ts";
import { bandLabels, bandShapes, rowTimes, stepPath, timeTicks, xOf } from "./time-axis.ts";
import type { TimeLimit } from "./time-limits.ts";

/** Steps of the one hue. */
const SHADES = 6;
const ROWS_MOST = 40;
const ROWS_LEAST = 20;
const LINES = [
  ["p50", 0.5, "line p50"],
  ["p99", 0.99, "line p99"],
] as const;

/** Buckets from which a row is made, so that there are at most `ROWS_MOST` rows, and fewer where there are few columns. */
const bucketsInRow = (from: number, to: number, columns: number): number => {
  const most = Math.min(ROWS_MOST, Math.max(ROWS_LEAST, Math.ceil(columns / 2)));
  let size = 2;
  while ((to - from + 1) / size > most) size *= 2;
  return size;
};

type Cells = { size: number; first: number; rows: number; at: (number | undefined)[][]; most: number };

const cellsOf = (bins: readonly SparseBuckets[], all: SparseBuckets): Cells => {
  const [from, to] = [all[0] as number, all.at(-2) as number];
  const size = bucketsInRow(from, to, bins.length);
  const first = Math.floor(from / size);
  const rows = Math.floor(to / size) - first + 1;
  let most = 1;
  const at = bins.map((bin) => {
    const column: number[] = [];
    for (let i = 0; i < bin.length; i += 2) {
      const row = Math.floor((bin[i] as number) / size) - first;
      column[row] = (column[row] ?? 0) + (bin[i + 1] as number);
      most = Math.max(most, column[row] as number);
    }
    return column;
  });
  return { size, first, rows, at, most };
};

/** One path for each shade, in units of cells and as lines as high as a cell; neighbours in a row that share it are one. */
const cellPaths = ({ rows, at, most }: Cells, height: number, hue: string): Markup => {
  const shade = (n: number): number =>
    most === 1 ? SHADES - 1 : Math.min(SHADES - 1, Math.floor((SHADES * Math.log(n)) / Math.log(most + 1)));
  const paths: string[] = Array.from({ length: SHADES }, () => "");
  const ends = paths.map(() => ({ x: 0, y: 0 }));
  /** Counted from where the last one of its shade ended. */
  const run = (own: number, x: number, y: number, width: number): string => {
    const from = ends[own] as { x: number; y: number };
    ends[own] = { x: x + width, y };
    const down = y - from.y;
    return `m${x - from.x}${down < 0 ? "" : " "}${down}h${width}`;
  };
  for (let row = 0; row < rows; row++) {
    const shadeAt = (i: number): number => (at[i]?.[row] === undefined ? -1 : shade(at[i]?.[row] as number));
    for (let i = 0; i < at.length; ) {
      const own = shadeAt(i);
      let end = i + 1;
      while (end < at.length && shadeAt(end) === own) end += 1;
      if (own >= 0) paths[own] += run(own, i, rows - 1 - row, end - i);
      i = end;
    }
  }
  const scale = `scale(${Number((WIDTH / at.length).toFixed(4))} ${Number((height / rows).toFixed(4))}) translate(0 .5)`;
  const drawn = paths.map((path, own) =>
    path === "" ? null : html`<path opacity="${(0.16 + (0.84 * own) / (SHADES - 1)).toFixed(2)}" d="${path}"/>`,
  );
  return html`<g class="cells ${hue}" transform="${scale}">${drawn}</g>`;
};

export type HeatMap = {
  id: string;
  title: string;
  /** Of each bin. */
  buckets: readonly SparseBuckets[];
  /** What was counted, in one and in several: `answer`, `answers`. */
  of: readonly [string, string];
  hue: Hue;
  /** A clause after the figures. */
  more?: string;
  limits?: readonly TimeLimit[];
  height?: number;
  /** Bins in which the generator itself was late, drawn grey. */
  doubted?: readonly boolean[];
};

const findingOf = ({ of, more, limits = [] }: HeatMap, all: SparseBuckets): string => {
  const n = countOf(all);
  const [p50, p99] = [quantileIfEnough(all, 0.5), quantileIfEnough(all, 0.99)];
  const most = milliseconds(quantileMs(all, 1) ?? 0);
  const figures =
    p50 === null
      ? `${counted(n, ...of)}, the longest ${most}: too few for quantiles.`
      : p99 === null
        ? `Half of ${counted(n, ...of)} within ${milliseconds(p50)}, the longest ${most}; too few for a p99.`
        : `Half of ${counted(n, ...of)} within ${milliseconds(p50)}, 99 % within ${milliseconds(p99)}.`;
  const missed = limits.filter(({ quantile, ms }) => (quantileIfEnough(all, quantile) ?? 0) > ms);
  const said = missed.length === 0 ? "" : ` Of all calls together, above ${missed.map(({ text }) => text).join(", ")}.`;
  return `${figures}${said}${more === undefined ? "" : ` ${more}`}`;
};

const grey = (course: Course, doubted: readonly boolean[], height: number): Markup[] =>
  doubted.flatMap((isLate, i) =>
    isLate
      ? [
          html`<rect class="doubt" fill="#8883" stroke="none" x="${xOf(course, i * course.binS)}" width="${(WIDTH / course.bins).toFixed(2)}" height="${height}"/>`,
        ]
      : [],
  );

/** `null` where nothing was counted. */
export const heatMap = (course: Course, map: HeatMap): Chart | null => {
  const { buckets, id, title, of, hue, limits = [], height = 130, doubted = [] } = map;
  const all = mergeSparse(buckets);
  if (all.length === 0) return null;
  const cells = cellsOf(buckets, all);
  const [lowMs, highMs] = [cells.first * cells.size, (cells.first + cells.rows) * cells.size].map(
    (b) => bucketFromUs(b) / 1000,
  ) as [number, number];
  const y = scaleLog([lowMs, highMs], [height, 0]);
  const ticks = logTicks(lowMs, highMs);
  const lines = LINES.map(([name, p, shape]) => ({
    name,
    shape,
    path: stepPath(course, quantileOverTime(buckets, p), y),
  }));
  const shown = lines.filter(({ path }) => path !== "");
  const drawnLimits = limits.filter(({ ms }) => ms >= lowMs && ms <= highMs);
  const rows = mergedOf(buckets, course.binsInRow);
  const times = rowTimes(course);
  const finding = findingOf(map, all);
  const short = (ms: number | null): string | null => (ms === null ? null : milliseconds(ms));
  return {
    id,
    title,
    finding,
    height,
    unit: "",
    isOverTime: true,
    description: `A map over ${seconds(course.spanS)}: the stronger the colour of a cell, the more ${of[1]} took that long. The scale of durations is logarithmic, from ${milliseconds(lowMs)} to ${milliseconds(highMs)}. ${shown.length === 0 ? "There are too few for lines of quantiles." : `Lines show ${shown.map(({ name }) => name).join(" and ")} where there are enough.`}`,
    across: timeTicks(course),
    up: ticks.map((ms) => ({ at: y(ms) / height, text: milliseconds(ms) })),
    drawn: html`${grey(course, doubted, height)}${cellPaths(cells, height, hue)}${bandShapes(course, height)}${drawnLimits.map(({ ms }) => html`<path class="limit" d="M0 ${y(ms).toFixed(1)}H${WIDTH}"/>`)}${shown.map(({ path, shape, name }) => html`<g class="halo"><path id="${id}-${name}" d="${path}"/></g><use class="${shape}" href="#${id}-${name}"/>`)}`,
    labels: html`${bandLabels(course)}${drawnLimits.map(({ ms, text }) => html`<text class="limit-name" x="100%" y="${inFrame(y(ms) - 4)}" text-anchor="end">${text}</text>`)}`,
    keys: [
      {
        swatch: hueSwatch(hue),
        text: `1 to ${count(cells.most)} in a cell`,
      },
      ...shown.map(({ name, shape }) => ({ swatch: lineSwatch(shape), text: name })),
      ...(doubted.some((isLate) => isLate) ? [{ swatch: doubtSwatch(), text: "the generator was late" }] : []),
    ],
    table: {
      head: ["from", of[1], "p50", "p90", "p99", "longest"],
      rows: rows.map((row, i) => [
        times[i] ?? "",
        countOf(row),
        ...[0.5, 0.9, 0.99].map((p) => short(quantileIfEnough(row, p))),
        short(quantileMs(row, 1)),
      ]),
      rowS: course.binS * course.binsInRow,
    },
  };
};

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
import { type Chart, inFrame, type Key, WIDTH } from "./frame.ts";
import { logTicks } from "./log-ticks.ts";
import { quantileIfEnough, quantileOverTime } from "./quantile-line.ts";
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

/** One path for each shade, in units of cells; neighbours in a row that share it are one rectangle. */
const cellPaths = ({ rows, at, most }: Cells, height: number, hue: string): Markup => {
  const shade = (n: number): number =>
    most === 1 ? SHADES - 1 : Math.min(SHADES - 1, Math.floor((SHADES * Math.log(n)) / Math.log(most + 1)));
  const paths: string[] = Array.from({ length: SHADES }, () => "");
  for (let row = 0; row < rows; row++) {
    const shadeAt = (i: number): number => (at[i]?.[row] === undefined ? -1 : shade(at[i]?.[row] as number));
    for (let i = 0; i < at.length; ) {
      const own = shadeAt(i);
      let end = i + 1;
      while (end < at.length && shadeAt(end) === own) end += 1;
      if (own >= 0) paths[own] += `M${i} ${rows - 1 - row}h${end - i}v1h-${end - i}z`;
      i = end;
    }
  }
  const scale = `scale(${Number((WIDTH / at.length).toFixed(4))} ${Number((height / rows).toFixed(4))})`;
  const drawn = paths.map((path, own) =>
    path === "" ? null : html`<path opacity="${(0.16 + (0.84 * own) / (SHADES - 1)).toFixed(2)}" d="${path}"/>`,
  );
  return html`<g class="${hue}" fill="currentColor" transform="${scale}">${drawn}</g>`;
};

const lineKey = (name: string, shape: string): Key => ({
  swatch: html`<svg class="swatch" width="22" height="14" aria-hidden="true"><path class="halo" fill="none" d="M0 7H22"/><path class="${shape}" fill="none" stroke="currentColor" d="M0 7H22"/></svg>`,
  text: name,
});

export type HeatMap = {
  id: string;
  title: string;
  /** Of each bin. */
  buckets: readonly SparseBuckets[];
  /** What was counted, in one and in several: `answer`, `answers`. */
  of: readonly [string, string];
  hue: "kind-answered" | "kind-shed" | "kind-refused" | "kind-error";
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
          html`<rect class="doubt" fill="#8883" x="${xOf(course, i * course.binS)}" y="0" width="${(WIDTH / course.bins).toFixed(2)}" height="${height}"/>`,
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
    drawn: html`${grey(course, doubted, height)}${cellPaths(cells, height, hue)}${bandShapes(course, height)}${drawnLimits.map(({ ms }) => html`<path class="limit" fill="none" stroke="currentColor" d="M0 ${y(ms).toFixed(1)}H${WIDTH}"/>`)}${shown.map(({ path, shape }) => html`<path class="halo" fill="none" d="${path}"/><path class="${shape}" fill="none" stroke="currentColor" d="${path}"/>`)}`,
    labels: html`${bandLabels(course)}${drawnLimits.map(({ ms, text }) => html`<text class="limit-name" x="100%" y="${inFrame(y(ms) - 4)}" text-anchor="end" fill="currentColor">${text}</text>`)}`,
    keys: [
      {
        swatch: html`<svg class="swatch" width="42" height="14" aria-hidden="true">${[0.16, 0.58, 1].map((opacity, i) => html`<path class="${hue}" fill="currentColor" opacity="${opacity}" d="M${i * 14} 0h14v14h-14z"/>`)}</svg>`,
        text: `1 to ${count(cells.most)} in a cell`,
      },
      ...shown.map(({ name, shape }) => lineKey(name, shape)),
      ...(doubted.some((isLate) => isLate)
        ? [
            {
              swatch: html`<svg class="swatch" width="14" height="14" aria-hidden="true"><path class="doubt" fill="#8883" d="M0 0h14v14h-14z"/></svg>`,
              text: "the generator was late",
            },
          ]
        : []),
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

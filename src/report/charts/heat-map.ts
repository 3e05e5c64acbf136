/**
 * How long calls took, as a map: across is time, up is duration (logarithmic), the stronger the colour the more calls.
 * Quantiles run over it where there are enough calls for them.
 */
import { mergedOf } from "../../history/coarser-series.ts";
import {
  bucketFromUs,
  countOf,
  mergeSparse,
  quantileMs,
  type SparseBuckets,
} from "../../history/statistics/log-buckets.ts";
import { count, counted, milliseconds, seconds } from "../figures.ts";
import { html, type Markup } from "../page/markup.ts";
import { type ChartSeries, stepPath, xOf } from "./chart-series.ts";
import { type Hue, swatch } from "./fills.ts";
import { type Chart, WIDTH } from "./frame.ts";
import { logarithmic, overTime } from "./over-time.ts";
import type { TimeLimit } from "./percentile-plot.ts";
import { quantileIfEnough, quantileOverTime } from "./quantile-line.ts";

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
  /** Unique in the stage. */
  name: string;
  title: string;
  /** Of each bin. */
  buckets: readonly SparseBuckets[];
  /** One of what was counted: `answer`. */
  one: string;
  hue: Hue;
  /** A sentence after the figures. */
  more?: string | undefined;
  limits: readonly TimeLimit[];
  height: number;
};

const findingOf = ({ one, more, limits }: HeatMap, all: SparseBuckets): string => {
  const n = countOf(all);
  const [p50, p99] = [quantileIfEnough(all, 0.5), quantileIfEnough(all, 0.99)];
  const most = milliseconds(quantileMs(all, 1) ?? 0);
  const figures =
    p50 === null
      ? `${counted(n, one)}, the longest ${most}: too few for quantiles.`
      : p99 === null
        ? `Half of ${counted(n, one)} within ${milliseconds(p50)}, the longest ${most}; too few for a p99.`
        : `Half of ${counted(n, one)} within ${milliseconds(p50)}, 99 % within ${milliseconds(p99)}.`;
  const missed = limits.filter(({ quantile, ms }) => (quantileIfEnough(all, quantile) ?? 0) > ms);
  const said = missed.length === 0 ? "" : ` Of all calls together, above ${missed.map(({ text }) => text).join(", ")}.`;
  return `${figures}${said}${more === undefined ? "" : ` ${more}`}`;
};

const grey = (stage: ChartSeries, doubted: readonly boolean[], height: number): Markup[] =>
  doubted.flatMap((isLate, i) =>
    isLate
      ? [
          html`<rect class="doubt" fill="#8883" stroke="none" x="${xOf(stage, i * stage.binS)}" width="${(WIDTH / stage.bins).toFixed(2)}" height="${height}"/>`,
        ]
      : [],
  );

/** `null` where nothing was counted. `doubted`: bins in which the generator itself was late, drawn grey. */
export const heatMap = (
  stage: ChartSeries,
  stageId: string,
  map: HeatMap,
  doubted: readonly boolean[],
): Chart | null => {
  const { buckets, name: own, title, one, hue, limits, height } = map;
  const all = mergeSparse(buckets);
  if (all.length === 0) return null;
  const cells = cellsOf(buckets, all);
  const [lowMs, highMs] = [cells.first * cells.size, (cells.first + cells.rows) * cells.size].map(
    (b) => bucketFromUs(b) / 1000,
  ) as [number, number];
  const scale = logarithmic(height, lowMs, highMs);
  const lines = LINES.map(([text, p, shape]) => {
    const path = stepPath(stage, quantileOverTime(buckets, p), scale.y);
    return { text, shape, path, halo: true as const };
  });
  const drawn = lines.filter(({ path }) => path !== "").map(({ text }) => text);
  const rows = mergedOf(buckets, stage.binsInRow);
  const column = (name: string, of: (row: SparseBuckets) => number | null) =>
    [name, rows.map(of).map((ms) => ms && milliseconds(ms))] as const;
  return overTime(stage, {
    id: `${stageId}-${own}`,
    title,
    finding: findingOf(map, all),
    description: `A map over ${seconds(stage.spanS)}: the stronger the colour of a cell, the more ${one}s took that long. The scale of durations is logarithmic, from ${milliseconds(lowMs)} to ${milliseconds(highMs)}. ${drawn.length === 0 ? "There are too few for lines of quantiles." : `Lines show ${drawn.join(" and ")} where there are enough.`}`,
    scale,
    under: html`${grey(stage, doubted, height)}${cellPaths(cells, height, hue)}`,
    lines,
    limits: limits.filter(({ ms }) => ms >= lowMs && ms <= highMs).map(({ ms, text }) => ({ at: ms, text })),
    keys: [
      { swatch: swatch(hue), text: `1 to ${count(cells.most)} in a cell` },
      ...(doubted.includes(true) ? [{ swatch: swatch("doubt"), text: "the generator was late" }] : []),
    ],
    columns: [
      [`${one}s`, rows.map(countOf)],
      column("p50", (row) => quantileIfEnough(row, 0.5)),
      column("p90", (row) => quantileIfEnough(row, 0.9)),
      column("p99", (row) => quantileIfEnough(row, 0.99)),
      column("longest", (row) => quantileMs(row, 1)),
    ],
  });
};

/** How long calls took, as a map: across is time, up is duration (logarithmic), the stronger the colour the more calls. */
import { mergedOf } from "../../history/series.ts";
import {
  bucketFromUs,
  countOf,
  mergeSparse,
  quantileMs,
  type SparseBuckets,
} from "../../history/statistics/log-buckets.ts";
import { count, counted, milliseconds, seconds } from "../figures.ts";
import { html, type Markup } from "../page/markup.ts";
import { type ChartSeries, xOf } from "./chart-series.ts";
import { type Hue, swatch } from "./fills.ts";
import { type Chart, WIDTH } from "./frame.ts";
import { logarithmic, overTime } from "./over-time.ts";
import { quantileCell, quantileIfEnough, quantileOverTime, type TimeLimit } from "./percentile-plot.ts";

/** Steps of the one hue. */
const SHADES = 6;
const ROWS_MOST = 40;
const ROWS_LEAST = 20;

type Cells = { size: number; first: number; rows: number; at: (number | undefined)[][]; most: number };

/** Counts by column and row. A row has so many buckets that there are at most `ROWS_MOST`, and fewer where there are few columns. */
const cellsOf = (bins: readonly SparseBuckets[], all: SparseBuckets): Cells => {
  const [from, to] = [all[0] as number, all.at(-2) as number];
  const rowsMost = Math.min(ROWS_MOST, Math.max(ROWS_LEAST, Math.ceil(bins.length / 2)));
  const size = 2 ** Math.max(1, Math.ceil(Math.log2((to - from + 1) / rowsMost)));
  const first = Math.floor(from / size);
  const at = bins.map((bin) => {
    const column: number[] = [];
    for (let i = 0; i < bin.length; i += 2) {
      const row = Math.floor((bin[i] as number) / size) - first;
      column[row] = (column[row] ?? 0) + (bin[i + 1] as number);
    }
    return column;
  });
  const most = Math.max(...at.flatMap((column) => Object.values(column)));
  return { size, first, rows: Math.floor(to / size) - first + 1, at, most };
};

/** One path for each shade, in units of cells and as lines as high as a cell; neighbours in a row that share it are one. */
const cellPaths = ({ rows, at, most }: Cells, height: number, hue: string): Markup => {
  const shade = (n: number | undefined): number => {
    if (n === undefined) return -1;
    return most === 1 ? SHADES - 1 : Math.min(SHADES - 1, Math.floor((SHADES * Math.log(n)) / Math.log(most + 1)));
  };
  const paths = Array.from({ length: SHADES }, () => ({ d: "", x: 0, y: 0 }));
  for (let y = rows - 1; y >= 0; y--) {
    const shades = at.map((column) => shade(column[rows - 1 - y]));
    for (let x = 0, end = 0; x < shades.length; x = end) {
      for (end = x + 1; end < shades.length && shades[end] === shades[x]; ) end += 1;
      const path = paths[shades[x] as number];
      if (path === undefined) continue;
      // Counted from where the last one of its shade ended.
      const down = y - path.y;
      path.d += `m${x - path.x}${down < 0 ? "" : " "}${down}h${end - x}`;
      Object.assign(path, { x: end, y });
    }
  }
  const scale = `scale(${Number((WIDTH / at.length).toFixed(4))} ${Number((height / rows).toFixed(4))}) translate(0 .5)`;
  const drawn = paths.map(({ d }, own) =>
    d === "" ? null : html`<path opacity="${(0.16 + (0.84 * own) / (SHADES - 1)).toFixed(2)}" d="${d}"/>`,
  );
  return html`<g class="cells ${hue}" transform="${scale}">${drawn}</g>`;
};

/** `one` of what was counted, as `answer`; `more`: what stands after the figures; `buckets` of each bin. */
type HeatMap = Record<"id" | "title" | "one" | "more", string> & {
  buckets: readonly SparseBuckets[];
  hue: Hue;
  limits: readonly TimeLimit[];
  height: number;
};

const findingOf = ({ one, more, limits }: HeatMap, all: SparseBuckets): string => {
  const [p50, p99] = [quantileCell(all, 0.5), quantileCell(all, 0.99)];
  const n = counted(countOf(all), one);
  const most = milliseconds(quantileMs(all, 1) ?? 0);
  const missed = limits.filter(({ quantile, ms }) => (quantileIfEnough(all, quantile) ?? 0) > ms);
  const said = missed.length === 0 ? "" : ` Of all calls together, above ${missed.map(({ text }) => text).join(", ")}.`;
  if (p50 === null) return `${n}, the longest ${most}: too few for quantiles.${said}${more}`;
  const tail = p99 === null ? `the longest ${most}; too few for a p99` : `99 % within ${p99}`;
  return `Half of ${n} within ${p50}, ${tail}.${said}${more}`;
};

/** `null` where nothing was counted. `doubted`: bins in which the generator itself was late, drawn grey. */
export const heatMap = (stage: ChartSeries, map: HeatMap, doubted: readonly boolean[]): Chart | null => {
  const { buckets, id, title, one, hue, limits, height } = map;
  const all = mergeSparse(buckets);
  if (all.length === 0) return null;
  const cells = cellsOf(buckets, all);
  const edgeMs = (row: number): number => bucketFromUs((cells.first + row) * cells.size) / 1000;
  const [lowMs, highMs] = [edgeMs(0), edgeMs(cells.rows)];
  const line = (text: "p50" | "p99", p: number) => {
    return { text, shape: `line ${text}` as const, values: quantileOverTime(buckets, p), halo: true as const };
  };
  const lines = [line("p50", 0.5), line("p99", 0.99)];
  const drawn = lines.filter(({ values }) => values.some((ms) => ms !== null)).map(({ text }) => text);
  const width = (WIDTH / stage.bins).toFixed(2);
  const grey = doubted.map((isLate, i) => {
    if (!isLate) return null;
    return html`<rect class="doubt" fill="#8883" stroke="none" x="${xOf(stage, i * stage.binS)}" width="${width}" height="${height}"/>`;
  });
  const rows = mergedOf(buckets, stage.binsInRow);
  const quantiles = [0.5, 0.9, 0.99].map((p) => [`p${p * 100}`, rows.map((row) => quantileCell(row, p))] as const);
  const longest = rows.map((row) => quantileMs(row, 1)).map((ms) => ms && milliseconds(ms));
  return overTime(stage, {
    id,
    title,
    finding: findingOf(map, all),
    description: `A map over ${seconds(stage.spanS)}: the stronger the colour of a cell, the more ${one}s took that long. The scale of durations is logarithmic, from ${milliseconds(lowMs)} to ${milliseconds(highMs)}. ${drawn.length === 0 ? "There are too few for lines of quantiles." : `Lines show ${drawn.join(" and ")} where there are enough.`}`,
    scale: logarithmic(height, lowMs, highMs),
    under: html`${grey}${cellPaths(cells, height, hue)}`,
    lines,
    limits: limits.filter(({ ms }) => ms >= lowMs && ms <= highMs).map(({ ms, text }) => ({ at: ms, text })),
    keys: [
      { swatch: swatch(hue), text: `1 to ${count(cells.most)} in a cell` },
      ...(doubted.includes(true) ? [{ swatch: swatch("doubt"), text: "the generator was late" }] : []),
    ],
    columns: [[`${one}s`, rows.map(countOf)], ...quantiles, ["longest", longest]],
  });
};

/**
 * Charts of how long calls took. A map: time across, duration up (logarithmic), a stronger colour for more calls. A
 * curve by percentile, stretched towards the tail (1/(1-p)), from the moment due and from sending: where the two part,
 * a generator that waits for answers would hide time (coordinated omission). Quantiles need enough calls above them.
 */
import { scaleLog } from "d3-scale";
import type { Objective } from "../../history/objectives.ts";
import {
  bucketFromUs,
  bucketMs,
  countOf,
  inRows,
  mergeSparse,
  quantileMs,
  type SparseBuckets,
} from "../../history/series.ts";
import { count, counted, milliseconds, seconds } from "../figures.ts";
import { html, type Markup } from "../page/markup.ts";
import { type ChartSeries, pathThrough, WIDTH, xOf } from "./chart-series.ts";
import { type Chart, dot, label, logarithmic, overTime } from "./frame.ts";
import { type Hue, type LineShape, swatch } from "./layers.ts";

const ABOVE_LEAST = 5;

const isEnough = (n: number, p: number): boolean => n * (1 - p) >= ABOVE_LEAST - 1e-9;

export const quantileIfEnough = (sparse: SparseBuckets, p: number): number | null =>
  isEnough(countOf(sparse), p) ? quantileMs(sparse, p) : null;

export const quantileCell = (sparse: SparseBuckets, p: number): string | null => {
  const ms = quantileIfEnough(sparse, p);
  return ms === null ? null : milliseconds(ms);
};

/** A line breaks at this many empty bins in a row. */
const GAP_BINS = 3;

/** Quantiles over time, in milliseconds. Bins are joined until they have enough calls; `null` for too few. */
export const quantileOverTime = (bins: readonly SparseBuckets[], p: number): (number | null)[] => {
  const values: (number | null)[] = bins.map(() => null);
  let [from, n, empty] = [0, 0, 0];
  for (const [i, bin] of bins.entries()) {
    n += countOf(bin);
    if (!isEnough(n, p)) continue;
    values.fill(quantileMs(mergeSparse(bins.slice(from, i + 1)), p), from, i + 1);
    [from, n] = [i + 1, 0];
  }
  for (let i = 0; i <= bins.length; i++) {
    if (bins[i]?.length !== 0 && empty >= GAP_BINS) values.fill(null, i - empty, i);
    empty = bins[i]?.length === 0 ? empty + 1 : 0;
  }
  return values;
};

/** A limit of a time that the target file states. */
export type TimeLimit = Objective & { kind: "time" };

const SHADES = 6;
const ROWS_MOST = 40;
const ROWS_LEAST = 20;

/** Counts by column and row. A row joins enough buckets for at most `ROWS_MOST` rows, or fewer for few columns. */
const cellsOf = (bins: readonly SparseBuckets[], all: SparseBuckets) => {
  const [from, to] = [all[0] as number, all.at(-2) as number];
  const rowsMost = Math.min(ROWS_MOST, Math.max(ROWS_LEAST, Math.ceil(bins.length / 2)));
  const size = 2 ** Math.max(1, Math.ceil(Math.log2((to - from + 1) / rowsMost)));
  const first = Math.floor(from / size);
  const at = bins.map((bin) => {
    const column: (number | undefined)[] = [];
    for (let i = 0; i < bin.length; i += 2) {
      const row = Math.floor((bin[i] as number) / size) - first;
      column[row] = (column[row] ?? 0) + (bin[i + 1] as number);
    }
    return column;
  });
  const most = Math.max(...at.flatMap((column) => Object.values(column) as number[]));
  return { size, first, rows: Math.floor(to / size) - first + 1, at, most };
};

/** One path for each shade, in units of cells, as lines as high as a cell; equal neighbours in a row are one line. */
const cellPaths = ({ rows, at, most }: ReturnType<typeof cellsOf>, height: number, hue: string): Markup => {
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
      // Coordinates are relative to where the last line of this shade ended.
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

/** `one`: the noun for one value, as `answer`; `more`: text after the figures; `bins`: the buckets of each bin. */
type HeatMap = Record<"id" | "title" | "one" | "more", string> & {
  bins: readonly SparseBuckets[];
  hue: Hue;
  limits: readonly TimeLimit[];
  height: number;
};

const mapFinding = ({ one, more, limits }: HeatMap, all: SparseBuckets): string => {
  const [p50, p99] = [quantileCell(all, 0.5), quantileCell(all, 0.99)];
  const n = counted(countOf(all), one);
  const most = milliseconds(quantileMs(all, 1) ?? 0);
  const missed = limits.filter(({ quantile, limit }) => (quantileIfEnough(all, quantile) ?? 0) > limit);
  const said = missed.length === 0 ? "" : ` Of all calls together, above ${missed.map(({ text }) => text).join(", ")}.`;
  if (p50 === null) return `${n}, the longest ${most}: too few for quantiles.${said}${more}`;
  const tail = p99 === null ? `the longest ${most}; too few for a p99` : `99 % within ${p99}`;
  return `Half of ${n} within ${p50}, ${tail}.${said}${more}`;
};

/** Returns `null` for no values. `doubted`: bins in which the generator itself was late, drawn grey. */
export const heatMap = (stage: ChartSeries, map: HeatMap, doubted: readonly boolean[]): Chart | null => {
  const { bins, id, title, one, hue, limits, height } = map;
  const all = mergeSparse(bins);
  if (all.length === 0) return null;
  const cells = cellsOf(bins, all);
  const edgeMs = (row: number): number => bucketFromUs((cells.first + row) * cells.size) / 1000;
  const [lowMs, highMs] = [edgeMs(0), edgeMs(cells.rows)];
  const lines = (["p50", "p99"] as const).map((text) => {
    const values = quantileOverTime(bins, text === "p50" ? 0.5 : 0.99);
    return { text, shape: `line ${text}` as const, values, halo: true };
  });
  const drawn = lines.filter(({ values }) => values.some((ms) => ms !== null)).map(({ text }) => text);
  const width = (WIDTH / stage.bins).toFixed(2);
  const grey = doubted.map((isLate, i) => {
    if (!isLate) return null;
    return html`<rect class="doubt" fill="#8883" stroke="none" x="${xOf(stage, i * stage.binS)}" width="${width}" height="${height}"/>`;
  });
  const rows = inRows(bins, stage.binsInRow, mergeSparse);
  const quantiles = [0.5, 0.9, 0.99].map((p) => [`p${p * 100}`, rows.map((row) => quantileCell(row, p))] as const);
  const longest = rows.map((row) => quantileMs(row, 1)).map((ms) => ms && milliseconds(ms));
  return overTime(stage, {
    id,
    title,
    finding: mapFinding(map, all),
    description: `A map over ${seconds(stage.spanS)}: the stronger the colour of a cell, the more ${one}s took that long. The scale of durations is logarithmic, from ${milliseconds(lowMs)} to ${milliseconds(highMs)}. ${drawn.length === 0 ? "There are too few for lines of quantiles." : `Lines show ${drawn.join(" and ")} where there are enough.`}`,
    scale: logarithmic(height, lowMs, highMs),
    under: html`${grey}${cellPaths(cells, height, hue)}`,
    lines,
    limits: limits.filter(({ limit }) => limit >= lowMs && limit <= highMs),
    keys: [
      { swatch: swatch(hue), text: `1 to ${count(cells.most)} in a cell` },
      ...(doubted.includes(true) ? [{ swatch: swatch("doubt"), text: "the generator was late" }] : []),
    ],
    columns: [[`${one}s`, rows.map(countOf)], ...quantiles, ["longest", longest]],
  });
};

const HEIGHT = 190;
const MARKS = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
const named = (p: number): string => (p === 0 ? "least" : `${Number((p * 100).toFixed(3))} %`);

export type PercentileCurve = { name: string; buckets: SparseBuckets; shape: LineShape };

/** A point for each bucket, as far into the tail as enough calls are left. */
const pointsOf = (buckets: SparseBuckets): { stretch: number; ms: number }[] => {
  const n = countOf(buckets);
  const points: { stretch: number; ms: number }[] = [];
  let seen = 0;
  for (let i = 0; i < buckets.length; i += 2) {
    const ms = bucketMs(buckets[i] as number);
    if (isEnough(n, seen / n)) points.push({ stretch: n / (n - seen), ms });
    seen += buckets[i + 1] as number;
  }
  // The last bucket reaches as far as enough calls are left.
  const last = points.at(-1);
  if (last !== undefined && n / ABOVE_LEAST > last.stretch) points.push({ stretch: n / ABOVE_LEAST, ms: last.ms });
  return points;
};

/** Says by how much times from sending are below those from the moment due: what coordinated omission would hide. */
export const hiddenSentence = (intended: SparseBuckets, sent: SparseBuckets): string => {
  const p = [0.999, 0.99, 0.9].find((one) => isEnough(countOf(intended), one)) ?? 0.5;
  const [due, left] = [quantileMs(intended, p), quantileMs(sent, p)];
  if (due === null || left === null) return "";
  const name = `p${Number((p * 100).toFixed(1))}`;
  const hidden = due - left;
  return hidden > due * 0.05
    ? `Counted from sending, ${name} would read ${milliseconds(left)} in place of ${milliseconds(due)}: coordinated omission would have hidden ${milliseconds(hidden)}.`
    : `Counted from sending it would read the same (${name} ${milliseconds(due)}): nothing was hidden by late sending.`;
};

/** Returns `null` for too few calls. */
export const percentilePlot = (
  about: Pick<Chart, "id" | "finding">,
  curves: readonly PercentileCurve[],
  limits: readonly TimeLimit[],
): Chart | null => {
  const drawn = curves
    .map((curve) => ({ ...curve, points: pointsOf(curve.buckets) }))
    .filter(({ points }) => points.length > 1);
  const [first] = drawn;
  if (first === undefined) return null;
  const all = drawn.flatMap(({ points }) => points);
  const low = Math.min(...all.map(({ ms }) => ms)) * 0.9;
  const high = Math.max(...all.map(({ ms }) => ms)) * 1.1;
  const furthest = Math.max(2, ...all.map(({ stretch }) => stretch));
  const x = scaleLog([1, furthest], [0, 1]);
  const xAt = (p: number): number => x(1 / (1 - p));
  const { y, ticks } = logarithmic(HEIGHT, low, high);
  const marks = MARKS.filter((p) => 1 / (1 - p) <= furthest * 1.001);
  const shownLimits = limits
    .filter(({ quantile: p, limit: ms }) => p < 1 && 1 / (1 - p) <= furthest && ms >= low && ms <= high)
    .map(({ quantile, limit: ms, text }) => {
      const [at, height] = [xAt(quantile), y(ms)];
      const name = label("limit-name", text, [at, height - 7], { dx: -9, anchor: "end" });
      return html`${dot("limit-point", [at, height], 5)}${name}`;
    });
  const medians = drawn.map(({ name, buckets }) => `${name}: p50 ${milliseconds(quantileMs(buckets, 0.5) ?? 0)}`);
  return {
    ...about,
    title: "Latency by percentile.",
    height: HEIGHT,
    description: `Durations by percentile, both scales logarithmic, up to the percentile that ${count(countOf(first.buckets))} calls allow. ${medians.join(", ")}.`,
    across: marks.map((p) => ({ at: xAt(p), text: named(p) })),
    acrossName: "of the calls took no longer",
    up: ticks,
    lines: drawn.map(({ name: text, shape, points }) => {
      return { text, shape, d: pathThrough(points.map(({ stretch, ms }) => [x(stretch) * WIDTH, y(ms)])) };
    }),
    labels: shownLimits,
    hasGrid: true,
    table: {
      head: ["percentile", ...drawn.map(({ name }) => name)],
      rows: marks.slice(1).map((p) => [named(p), ...drawn.map(({ buckets }) => quantileCell(buckets, p))]),
    },
  };
};

/**
 * Durations by percentile, the axis stretched towards the tail (1/(1-p)): from the moment at which a call was due, and from the one
 * at which it was sent. Where the two part, a generator that waits for answers hides it (coordinated omission). Quantiles
 * stand here and in lines over time only where enough calls are above them.
 */
import { scaleLog } from "d3-scale";
import {
  bucketMs,
  countOf,
  mergeSparse,
  quantileMs,
  type SparseBuckets,
} from "../../history/statistics/log-buckets.ts";
import { count, milliseconds } from "../figures.ts";
import { html } from "../page/markup.ts";
import { pathThrough } from "./chart-series.ts";
import { type LineShape, swatch } from "./fills.ts";
import { type Chart, inFrame, percent, WIDTH } from "./frame.ts";
import { logarithmic } from "./over-time.ts";

const ABOVE_LEAST = 5;

const isEnough = (n: number, p: number): boolean => n * (1 - p) >= ABOVE_LEAST - 1e-9;

export const quantileIfEnough = (sparse: SparseBuckets, p: number): number | null =>
  isEnough(countOf(sparse), p) ? quantileMs(sparse, p) : null;

/** The same as a cell of a table. */
export const quantileCell = (sparse: SparseBuckets, p: number): string | null => {
  const ms = quantileIfEnough(sparse, p);
  return ms === null ? null : milliseconds(ms);
};

/** A line breaks where so many bins in a row are empty. */
const GAP_BINS = 3;

/** Bins are joined until there are enough calls; each has the quantile of its window, in milliseconds, or `null` of too few. */
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

/** A limit that the target states. */
export type TimeLimit = { text: string; of: "answer" | "first event"; quantile: number; ms: number };

const HEIGHT = 190;
const MARKS = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
const named = (p: number): string => (p === 0 ? "least" : `${Number((p * 100).toFixed(3))} %`);

export type PercentileCurve = { name: string; buckets: SparseBuckets; shape: LineShape };

type Point = { stretch: number; ms: number };

/** A point for each bucket, as far into the tail as there are enough calls. */
const pointsOf = (buckets: SparseBuckets): Point[] => {
  const n = countOf(buckets);
  const points: Point[] = [];
  let seen = 0;
  for (let i = 0; i < buckets.length; i += 2) {
    const ms = bucketMs(buckets[i] as number);
    if (isEnough(n, seen / n)) points.push({ stretch: n / (n - seen), ms });
    seen += buckets[i + 1] as number;
  }
  // The last bucket reaches as far as there are enough calls.
  const last = points.at(-1);
  if (last !== undefined && n / ABOVE_LEAST > last.stretch) points.push({ stretch: n / ABOVE_LEAST, ms: last.ms });
  return points;
};

/** Where times from sending are furthest below those from the due moment: what waiting would have hidden. */
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

/** `null` where there are too few calls for a curve. */
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
  const x = scaleLog([1, furthest], [0, WIDTH]);
  const xAt = (p: number): number => x(1 / (1 - p));
  const { y, ticks } = logarithmic(HEIGHT, low, high);
  const marks = MARKS.filter((p) => 1 / (1 - p) <= furthest * 1.001);
  const grid = marks.map((p) => html`<path class="grid" stroke="#8884" d="M${xAt(p).toFixed(1)} 0V${HEIGHT}"/>`);
  const lines = drawn.map(({ points, shape }) => {
    const d = pathThrough(points.map(({ stretch, ms }) => [x(stretch), y(ms)]));
    return html`<path class="${shape}" d="${d}"/>`;
  });
  const shownLimits = limits
    .filter(({ quantile: p, ms }) => p < 1 && 1 / (1 - p) <= furthest && ms >= low && ms <= high)
    .map(({ quantile, ms, text }) => {
      const at = percent(xAt(quantile) / WIDTH);
      return html`<g class="limit-point"><circle cx="${at}" cy="${inFrame(y(ms))}" r="5" fill="none" stroke="currentColor"/><text x="${at}" dx="-9" y="${inFrame(y(ms) - 7)}" text-anchor="end">${text}</text></g>`;
    });
  const medians = drawn.map(({ name, buckets }) => `${name}: p50 ${milliseconds(quantileMs(buckets, 0.5) ?? 0)}`);
  return {
    ...about,
    title: "Latency by percentile.",
    height: HEIGHT,
    description: `Durations by percentile, both scales logarithmic, up to the percentile that ${count(countOf(first.buckets))} calls allow. ${medians.join(", ")}.`,
    across: marks.map((p) => ({ at: xAt(p) / WIDTH, text: named(p) })),
    acrossName: "of the calls took no longer",
    up: ticks,
    drawn: html`${grid}${lines.reverse()}`,
    labels: html`${shownLimits}`,
    keys: drawn.map(({ name, shape }) => ({ swatch: swatch(shape), text: name })),
    table: {
      head: ["percentile", ...drawn.map(({ name }) => name)],
      rows: marks.slice(1).map((p) => [named(p), ...drawn.map(({ buckets }) => quantileCell(buckets, p))]),
    },
  };
};

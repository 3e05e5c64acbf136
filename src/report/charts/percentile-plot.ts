/**
 * Durations by percentile, the axis stretched towards the tail (1/(1-p)): from the moment at which a call was due, and from the one
 * at which it was sent. Where the two part, a generator that waits for answers hides it (coordinated omission).
 */
import { scaleLog } from "d3-scale";
import { bucketMiddleUs, countOf, quantileMs, type SparseBuckets } from "../../history/statistics/log-buckets.ts";
import { count, counted, milliseconds } from "../figures.ts";
import { html } from "../page/markup.ts";
import { swatch } from "./fills.ts";
import { type Chart, inFrame, percent, WIDTH } from "./frame.ts";
import { logarithmic } from "./over-time.ts";
import { ABOVE_LEAST, isEnough, quantileIfEnough } from "./quantile-line.ts";
import { pathThrough } from "./step-path.ts";

/** A limit that the target states. */
export type TimeLimit = { text: string; of: "answer" | "first event"; quantile: number; ms: number };

const HEIGHT = 190;
const MARKS = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
const NAMES = ["least", "50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"];

type Curve = { name: string; buckets: SparseBuckets; shape: "line callers" | "line gauges" };

type Point = { stretch: number; ms: number };

/** A point for each bucket, as far into the tail as there are enough calls. */
const pointsOf = (buckets: SparseBuckets): Point[] => {
  const n = countOf(buckets);
  const points: Point[] = [];
  let seen = 0;
  for (let i = 0; i < buckets.length; i += 2) {
    const ms = bucketMiddleUs(buckets[i] as number) / 1000;
    if (isEnough(n, seen / n)) points.push({ stretch: n / (n - seen), ms });
    seen += buckets[i + 1] as number;
  }
  // The last bucket reaches as far as there are enough calls.
  const last = points.at(-1);
  if (last !== undefined && n / ABOVE_LEAST > last.stretch) points.push({ stretch: n / ABOVE_LEAST, ms: last.ms });
  return points;
};

/** Where the second curve is furthest below the first: what waiting would have hidden. */
const hiddenSentence = (intended: SparseBuckets, sent: SparseBuckets): string => {
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
  about: { id: string; title: string; finding?: string },
  curves: readonly Curve[],
  limits: readonly TimeLimit[],
): Chart | null => {
  const drawn = curves
    .map((curve) => ({ ...curve, points: pointsOf(curve.buckets) }))
    .filter(({ points }) => points.length > 1);
  const [first] = drawn;
  if (first === undefined) return null;
  const n = countOf(first.buckets);
  const all = drawn.flatMap(({ points }) => points);
  const [low, high] = [Math.min(...all.map(({ ms }) => ms)), Math.max(...all.map(({ ms }) => ms))];
  const furthest = Math.max(2, ...all.map(({ stretch }) => stretch));
  const x = scaleLog([1, furthest], [0, WIDTH]);
  const { y, ticks } = logarithmic(HEIGHT, low * 0.9, high * 1.1);
  const path = (points: readonly Point[]): string => pathThrough(points.map(({ stretch, ms }) => [x(stretch), y(ms)]));
  const marks = MARKS.map((p, i) => ({ p, name: NAMES[i] as string, stretch: 1 / (1 - p) })).filter(
    ({ stretch }) => stretch <= furthest * 1.001,
  );
  const shownLimits = limits.filter(
    ({ quantile, ms }) => quantile < 1 && 1 / (1 - quantile) <= furthest && ms >= low * 0.9 && ms <= high * 1.1,
  );
  const [, second] = curves;
  const finding =
    about.finding ?? (second === undefined ? `${counted(n, "call")}.` : hiddenSentence(first.buckets, second.buckets));
  return {
    id: about.id,
    title: about.title,
    finding,
    height: HEIGHT,
    description: `Durations by percentile, both scales logarithmic, up to the percentile that ${count(n)} calls allow. ${drawn.map(({ name, buckets }) => `${name}: p50 ${milliseconds(quantileMs(buckets, 0.5) ?? 0)}`).join(", ")}.`,
    across: marks.map(({ stretch, name }) => ({ at: x(stretch) / WIDTH, text: name })),
    acrossName: "of the calls took no longer",
    up: ticks,
    drawn: html`${marks.map(({ stretch }) => html`<path class="grid" stroke="#8884" d="M${x(stretch).toFixed(1)} 0V${HEIGHT}"/>`)}${drawn.map(({ points, shape }) => html`<path class="${shape}" d="${path(points)}"/>`).reverse()}`,
    labels: html`${shownLimits.map(({ quantile, ms, text }) => {
      const at = percent(x(1 / (1 - quantile)) / WIDTH);
      return html`<g class="limit-point"><circle cx="${at}" cy="${inFrame(y(ms))}" r="5" fill="none" stroke="currentColor"/><text x="${at}" dx="-9" y="${inFrame(y(ms) - 7)}" text-anchor="end">${text}</text></g>`;
    })}`,
    keys: drawn.map(({ name, shape }) => ({ swatch: swatch(shape), text: name })),
    table: {
      head: ["percentile", ...drawn.map(({ name }) => name)],
      rows: marks
        .filter(({ p }) => p > 0)
        .map(({ p, name }) => [
          name,
          ...drawn.map(({ buckets }) => quantileIfEnough(buckets, p)).map((ms) => ms && milliseconds(ms)),
        ]),
    },
  };
};

/** The charts of the shedding curve: goodput over offered rate and, on the same logarithmic axis, all other calls. */
import { scaleLog } from "d3-scale";
import { type Claim, groupOf } from "../../history/run-document.ts";
import type { Curve, CurveLevel, Estimate, Pass } from "../../shedding/curve.ts";
import { carriedPerS } from "../../shedding/knee.ts";
import { RETENTION_LEVELS, retentionAt, statedSystem } from "../../shedding/measures.ts";
import { figure, milliseconds, perSecond, share } from "../figures.ts";
import { card, html, type Markup } from "../page/markup.ts";
import { kneeSentences, objectiveText, shownCurve, timesKnee } from "../shown-curve.ts";
import { pathThrough, WIDTH } from "./chart-series.ts";
import { band, type Chart, chartFigure, dot, label, linear, spread } from "./frame.ts";
import { type Layer, layerKeys, layerShape, layersOf } from "./layers.ts";

const WAYS: Readonly<Record<Pass, string>> = { up: "up", down: "down", after: "once more, after calm" };

/** A factor for the room beside the lowest and the highest rate; the least distance of two numbers below the axis. */
const MARGIN = 1.12;
const TICKS_APART = 0.09;
const POINTS = 60;

/** `x`: a share of the width; `lineOf` draws a function of the rate where it lies inside the drawing. */
const axisOf = ({ levels }: Curve) => {
  const rates = [...new Set(levels.map(({ ratePerS }) => ratePerS))].sort((a, b) => a - b);
  const [from, to] = [(rates[0] as number) / MARGIN, (rates.at(-1) as number) * MARGIN];
  const x = scaleLog([from, to], [0, 1]);
  let free = 0;
  const across = rates.flatMap((ratePerS) => {
    const at = x(ratePerS);
    if (at < free) return [];
    free = at + TICKS_APART;
    return [{ at, text: figure(ratePerS) }];
  });
  const lineOf = (y: (value: number) => number, of: (ratePerS: number) => number): string =>
    pathThrough(
      Array.from({ length: POINTS + 1 }, (_, i) => from * (to / from) ** (i / POINTS))
        .map((ratePerS): [number, number] => [x(ratePerS) * WIDTH, y(of(ratePerS))])
        .filter(([, at]) => at >= -1),
    );
  return { x, from, to, lineOf, shared: { across, acrossName: "calls/s offered, logarithmic" } };
};
type Axis = ReturnType<typeof axisOf>;

const onWay = ({ levels }: Curve, pass: Pass): CurveLevel[] =>
  levels.filter((level) => level.pass === pass).sort((a, b) => a.ratePerS - b.ratePerS);

const keptSentences = (curve: Curve): string[] => {
  const kept = RETENTION_LEVELS.flatMap((times) => {
    const of = retentionAt(curve, times)?.value ?? Number.NaN;
    return Number.isFinite(of) ? [`${share(Math.min(1, of), 1)} at ${times} times the knee`] : [];
  });
  return kept.length === 0 ? [] : [`Of the largest goodput it keeps ${kept.join(", ")}.`];
};

/** Intervals are drawn up to this multiple of the largest value. */
const INTERVALS_MOST = 1.4;

/** `broken`: the reasons of failed claims about the curve. */
const goodputChart = (curve: Curve, broken: readonly string[], { x, from, to, lineOf, shared }: Axis): Chart => {
  const { levels, knee } = curve;
  const system = statedSystem(curve);
  const seen = Math.max(
    ...[...levels.map(({ goodputPerS }) => goodputPerS), knee.overall, knee.after].map((one) => one?.value ?? 0),
    ...(system === null ? [] : levels.map(({ ratePerS }) => carriedPerS(system, ratePerS))),
    1e-3,
  );
  // Intervals of few calls may be wide, so they are cut.
  const most = Math.min(INTERVALS_MOST * seen, Math.max(seen, ...levels.map(({ goodputPerS: { high } }) => high)));
  const { y, height, ticks, top } = linear(240, most * 1.03, 5);
  const inside = (value: number): number => y(Math.min(top, Math.max(0, value)));
  const way = (pass: Pass): string =>
    pathThrough(onWay(curve, pass).map(({ ratePerS, goodputPerS: { value } }) => [x(ratePerS) * WIDTH, inside(value)]));
  const form = system === null ? "" : lineOf(y, (ratePerS) => carriedPerS(system, ratePerS));
  const lines = [
    { shape: "line", text: "closed form (Erlang) of the stated slots", d: form },
    { shape: "line callers", text: "on the way up, filled dots", d: way("up") },
    { shape: "line p99", text: "on the way down, hollow dots", d: way("down") },
  ] as const;
  const kneeBand = (of: Estimate | null, name: string, isFilled?: false): Markup | null => {
    if (of === null || of.value < from || of.value > to) return null;
    const [low = 0, high = 0] = [Math.max(from, of.low), Math.min(to, of.high)].map((rate) => x(rate) * WIDTH);
    const title = `${name}: ${perSecond(of.value)}, with its 95 % interval`;
    return band([low, Math.max(low + 1, high)], height, title, isFilled);
  };
  const bands = [kneeBand(knee.overall, "knee"), kneeBand(knee.after, "knee after the overload", false)];
  const dots = levels.map(({ pass, ratePerS, goodputPerS: { value, low, high } }) => {
    const [at, y] = [x(ratePerS), inside(value)];
    const interval = Number.isFinite(high) && spread("spread", [at, inside(high)], [at, inside(low)]);
    const mark =
      pass === "after"
        ? label("limit-name", "×", [at, y + 5], { anchor: "middle" })
        : dot(pass === "up" ? "kind-answered" : "hollow", [at, y], pass === "up" ? 4.5 : 3.5);
    return html`<g><title>${WAYS[pass]}, ${perSecond(ratePerS)}: ${perSecond(value)} good</title>${interval}${mark}</g>`;
  });
  // The name stands left of the line, unless it would lie over the band of the knee there.
  const isBesideKnee = (knee.overall?.value ?? top) < 0.85 * top && top < 0.7 * to;
  const nearTop = Math.min(to, (isBesideKnee ? 0.95 : 0.85) * top);
  const kneeName =
    knee.overall === null || bands[0] === null
      ? null
      : label("band-name", "knee", [x(knee.overall.value), -6], { anchor: "middle" });
  const side = isBesideKnee ? { dx: 8 } : { dx: -8, anchor: "end" as const };
  const allServed = label("limit-name", "all served", [x(nearTop), y(nearTop)], side);
  const again = levels.some(({ pass }) => pass === "after") ? [{ swatch: html`<b>×</b>`, text: WAYS.after }] : [];
  const sentences = [
    ...[...kneeSentences(curve), ...keptSentences(curve)],
    ...broken.map((one) => `Not as it must be: ${one}.`),
  ];
  return {
    ...shared,
    id: "curve-goodput",
    height,
    unit: "good/s",
    title: "Served of what is offered.",
    finding: sentences.join(" "),
    description:
      "Rates of calls across, on a logarithmic scale; good calls a second up. A solid line with filled dots on the way up, a dashed one with hollow dots on the way down, each dot with its 95 % interval. A dotted line is where all would be served; a band is the knee with its interval, an empty dashed one the knee after the overload.",
    up: ticks,
    drawn: html`${bands}<path class="limit" d="${lineOf(y, (r) => r)}"/>`,
    lines,
    labels: [...dots, kneeName, allServed],
    keys: again,
    table: {
      head: ["way", "× knee", "offered/s", "good/s", "95 % interval", "p50", "p99", "p99 of refusals"],
      rows: levels.map(({ pass, ratePerS, goodputPerS: { value, low, high }, stayMs, refusalMs }) => [
        ...[WAYS[pass], timesKnee(curve, ratePerS), figure(ratePerS), figure(value)],
        Number.isFinite(high) ? `${figure(low)} to ${figure(high)}` : null,
        ...[stayMs.p50, stayMs.p99, refusalMs.p99].map((ms) => ms && milliseconds(ms)),
      ]),
    },
  };
};

/** All calls but good ones, as layers with a count at every level. */
const lostLayers = ({ levels }: Curve): Layer[] => {
  const counts = (of: (level: CurveLevel) => number): number[] => levels.map(of);
  // A `Map`, because a server chose the names, which might equal properties of an object.
  const each = levels.map(({ shed, failed }) => new Map([...Object.entries(shed), ...Object.entries(failed)]));
  const outcomes = [...new Set(each.flatMap((one) => [...one.keys()]))];
  const by_outcome = Object.fromEntries(outcomes.map((name) => [name, each.map((one) => one.get(name) ?? 0)]));
  const layers: Layer[] = [
    { name: "late", kind: "answered", pattern: "late", counts: counts(({ late }) => late) },
    ...layersOf({ by_outcome, offered: counts(({ offered }) => offered) }),
    { name: "left by the caller", kind: "edge", pattern: "edge", counts: counts(({ aborted }) => aborted) },
  ];
  return layers.filter(({ counts: of }) => of.some((n) => n > 0));
};

const LEAST_SAID = 0.001;

const lostFinding = ({ levels }: Curve, layers: readonly Layer[]): string => {
  const at = levels.reduce((top, { ratePerS }, i) => (ratePerS > (levels[top] as CurveLevel).ratePerS ? i : top), 0);
  const { offered, ratePerS } = levels[at] as CurveLevel;
  const lost = layers
    .map(({ name, counts }) => ({ name, n: counts[at] as number }))
    .filter(({ n }) => n > LEAST_SAID * offered)
    .sort((a, b) => b.n - a.n)
    .map(({ name, n }) => `${share(n, offered)} ${name}`);
  return lost.length === 0
    ? `At ${perSecond(ratePerS)} nothing is lost.`
    : `At ${perSecond(ratePerS)}: ${lost.join(", ")}.`;
};

const lostChart = (curve: Curve, { x, shared }: Axis): Chart => {
  const { levels } = curve;
  const layers = lostLayers(curve);
  const { y, height, ticks } = linear(130, 1, 4, (value) => `${figure(value * 100)} %`);
  /** The share of calls in the first `count` layers, at each level on the way up or on the way down. */
  const edge = (pass: Pass, count: number): [number, number][] =>
    onWay(curve, pass).map((level) => {
      const at = levels.indexOf(level);
      const n = layers.slice(0, count).reduce((sum, { counts }) => sum + (counts[at] as number), 0);
      return [x(level.ratePerS) * WIDTH, y(Math.min(1, n / Math.max(1, level.offered)))];
    });
  const areas = layers.map((layer, i) => {
    const points = edge("up", i + 1);
    // Reaches to both ends of the axis, so that a single level is seen as well.
    const [first, last] = [points[0], points.at(-1)];
    if (first === undefined || last === undefined) return null;
    return layerShape({ layer, d: `${pathThrough([[0, first[1]], ...points, [WIDTH, last[1]]])}V${height}H0z` });
  });
  return {
    ...shared,
    id: "curve-lost",
    height,
    unit: "share",
    title: "What became of the others.",
    finding: lostFinding(curve, layers),
    description:
      "The same rates across; up the share of calls that were not good, on the way up, stacked by what came of them. A dashed line is the whole share on the way down.",
    up: ticks,
    drawn: html`${areas.toReversed()}`,
    lines: [{ shape: "line p99", text: "all of them, on the way down", d: pathThrough(edge("down", layers.length)) }],
    keys: layerKeys(layers),
    table: {
      head: ["way", "× knee", "calls", "good", ...layers.map(({ name }) => name), "retries"],
      rows: levels.map((level, i) => [
        ...[WAYS[level.pass], timesKnee(curve, level.ratePerS), level.offered, share(level.good, level.offered)],
        ...layers.map(({ counts }) => share(counts[i] as number, level.offered)),
        level.retries,
      ]),
    },
  };
};

export const curveSection = (found: unknown, claims: readonly Claim[]): Markup | null => {
  const curve = shownCurve(found);
  if (curve === null) return null;
  const axis = axisOf(curve);
  const broken = claims
    .filter(({ id, stage, verdict }) => verdict === "fail" && stage === curve.stage && groupOf(id) === "curve")
    .map(({ reason }) => reason);
  const lead = html`<p class="small muted">${objectiveText(curve)}</p>`;
  const figures = [goodputChart(curve, broken, axis), lostChart(curve, axis)].map((chart) => chartFigure(chart));
  return card("curve", "Shedding by load", lead, figures);
};

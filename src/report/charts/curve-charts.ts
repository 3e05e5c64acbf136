/**
 * The curve of shedding: what is served of what is offered, up past the knee and down again, and beneath it on the same axis
 * what became of the rest. The axis is logarithmic, because levels are multiples of the knee.
 */
import { scaleLog } from "d3-scale";
import type { Claim } from "../../history/run-document.ts";
import type { Curve, CurveLevel, Pass } from "../../shedding/curve.ts";
import { carriedPerS } from "../../shedding/knee.ts";
import { RETENTION_LEVELS, retentionAt, statedSystem } from "../../shedding/measures.ts";
import { figure, milliseconds, perSecond, share } from "../figures.ts";
import { card, html, type Markup } from "../page/markup.ts";
import { kneeSentences, objectiveText, shownCurve, timesKnee } from "../shown-curve.ts";
import { groupOf } from "../verdict.ts";
import { fillOf, type LineShape, swatch } from "./fills.ts";
import { type Chart, chartFigure, dot, inFrame, percent, spread, WIDTH } from "./frame.ts";
import { type Layer, layersOf } from "./layers.ts";
import { linear } from "./over-time.ts";
import { pathThrough } from "./step-path.ts";

const WAYS: Readonly<Record<Pass, string>> = { up: "up", down: "down", after: "once more, after calm" };

/** Room on both sides of the lowest and the highest rate, and between two numbers beneath the axis. */
const MARGIN = 1.12;
const TICKS_APART = 0.09;

/** `x` in units of the drawing. */
type Axis = { x: (ratePerS: number) => number; from: number; to: number; across: Chart["across"] };

const axisOf = ({ levels }: Curve): Axis => {
  const rates = [...new Set(levels.map(({ ratePerS }) => ratePerS))].sort((a, b) => a - b);
  const [from, to] = [(rates[0] as number) / MARGIN, (rates.at(-1) as number) * MARGIN];
  const x = scaleLog([from, to], [0, WIDTH]);
  let free = 0;
  const across = rates.flatMap((ratePerS) => {
    const at = x(ratePerS) / WIDTH;
    if (at < free) return [];
    free = at + TICKS_APART;
    return [{ at, text: figure(ratePerS) }];
  });
  return { x, from, to, across };
};

const onWay = ({ levels }: Curve, pass: Pass): CurveLevel[] =>
  levels.filter((level) => level.pass === pass).sort((a, b) => a.ratePerS - b.ratePerS);

const POINTS = 60;
/** A function of the rate as a line, as far as it stays inside the drawing. */
const lineOf = ({ x, from, to }: Axis, y: (value: number) => number, of: (ratePerS: number) => number): string =>
  pathThrough(
    Array.from({ length: POINTS + 1 }, (_, i) => from * (to / from) ** (i / POINTS))
      .map((ratePerS): [number, number] => [x(ratePerS), y(of(ratePerS))])
      .filter(([, at]) => at >= -1),
  );

const keptSentences = (curve: Curve): string[] => {
  const kept = RETENTION_LEVELS.flatMap((times) => {
    const of = retentionAt(curve, times);
    return of === null || !Number.isFinite(of.value)
      ? []
      : [`${share(Math.min(1, of.value), 1)} at ${times} times the knee`];
  });
  return kept.length === 0 ? [] : [`Of the largest goodput it keeps ${kept.join(", ")}.`];
};

/** How far above the largest value an interval is drawn. */
const INTERVALS_MOST = 1.4;

/** `broken`: why claims about it fail. */
const goodputChart = (curve: Curve, broken: readonly string[], axis: Axis): Chart => {
  const { levels, knee } = curve;
  const { x } = axis;
  const across = (ratePerS: number): string => percent(x(ratePerS) / WIDTH);
  const system = statedSystem(curve);
  const seen = Math.max(
    ...[...levels.map(({ goodputPerS }) => goodputPerS), knee.before, knee.after].map((one) => one?.value ?? 0),
    ...(system === null ? [] : levels.map(({ ratePerS }) => carriedPerS(system, ratePerS))),
    1e-3,
  );
  // Intervals of few calls may be wide; what is beyond is cut.
  const most = Math.min(INTERVALS_MOST * seen, Math.max(seen, ...levels.map(({ goodputPerS: { high } }) => high)));
  const { y, height, ticks, top } = linear(240, most * 1.03, 5);
  const inside = (value: number): number => Math.min(top, Math.max(0, value));
  const lines: readonly (readonly [LineShape, string, string])[] = [
    [
      "line",
      "closed form (Erlang) of the stated slots",
      system === null ? "" : lineOf(axis, y, (r) => carriedPerS(system, r)),
    ],
    ...(["up", "down"] as const).map((pass): [LineShape, string, string] => [
      pass === "up" ? "line callers" : "line p99",
      `on the way ${pass}, ${pass === "up" ? "filled" : "hollow"} dots`,
      pathThrough(onWay(curve, pass).map(({ ratePerS, goodputPerS: { value } }) => [x(ratePerS), y(inside(value))])),
    ]),
  ];
  const drawn = lines.filter(([, , path]) => path !== "");
  const bands = (
    [
      ["before", "band"],
      ["after", "band empty"],
    ] as const
  ).flatMap(([when, style]) => {
    const of = knee[when];
    if (of === null || of.value < axis.from || of.value > axis.to) return [];
    const [low, high] = [x(Math.max(axis.from, of.low)), x(Math.min(axis.to, of.high))];
    return html`<rect class="${style}" fill="none" x="${low.toFixed(1)}" y="0" width="${Math.max(1, high - low).toFixed(1)}" height="${height}"><title>knee ${when} the overload: ${perSecond(of.value)}, with its 95 % interval</title></rect>`;
  });
  const dots = levels.map(({ pass, ratePerS, goodputPerS: { value, low, high } }) => {
    const cx = across(ratePerS);
    const interval = Number.isFinite(high)
      ? spread("spread", [cx, cx], [inFrame(y(inside(high))), inFrame(y(inside(low)))])
      : null;
    const at = inFrame(y(inside(value)));
    const mark =
      pass === "after"
        ? html`<text class="limit-name" x="${cx}" y="${at + 5}" text-anchor="middle" fill="currentColor">×</text>`
        : dot(pass === "up" ? "kind-answered" : "hollow", cx, at, pass === "up" ? 4.5 : 3.5);
    return html`<g><title>${WAYS[pass]}, ${perSecond(ratePerS)}: ${perSecond(value)} good</title>${interval}${mark}</g>`;
  });
  const { before } = knee;
  const nearTop = Math.min(axis.to, 0.85 * top);
  const names = [
    before === null || bands.length === 0
      ? null
      : html`<text class="band-name" x="${across(before.value)}" y="${inFrame(-6)}" text-anchor="middle" fill="currentColor">knee</text>`,
    html`<text class="limit-name" x="${across(nearTop)}" dx="-8" y="${inFrame(y(nearTop))}" text-anchor="end" fill="currentColor">all served</text>`,
  ];
  const again = levels.some(({ pass }) => pass === "after") ? [{ swatch: html`<b>×</b>`, text: WAYS.after }] : [];
  return {
    id: "curve-goodput",
    height,
    unit: "good/s",
    title: "Served of what is offered.",
    finding: [
      ...[...kneeSentences(curve), ...keptSentences(curve)],
      ...broken.map((one) => `Not as it must be: ${one}.`),
    ].join(" "),
    description:
      "Rates of calls across, on a logarithmic scale; good calls a second up. A solid line with filled dots on the way up, a dashed one with hollow dots on the way down, each dot with its 95 % interval. A dotted line is where all would be served; a band is the knee with its interval, an empty dashed one the knee after the overload.",
    across: axis.across,
    acrossName: "calls/s offered, logarithmic",
    up: ticks,
    drawn: html`${bands}<path class="limit" d="${lineOf(axis, y, (r) => r)}"/>${drawn.map(([shape, , path]) => html`<path class="${shape}" d="${path}"/>`)}`,
    labels: html`${dots}${names}`,
    keys: [...drawn.map(([shape, text]) => ({ swatch: swatch(shape), text })), ...again],
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

/** Everything but good calls, each as a layer with its count at every level. */
const lostLayers = ({ levels }: Curve): Layer[] => {
  const outcomes = new Set(levels.flatMap(({ shed, failed }) => [...Object.keys(shed), ...Object.keys(failed)]));
  const counts = (of: (level: CurveLevel) => number): number[] => levels.map(of);
  const own = (all: Readonly<Record<string, number>>, name: string): number =>
    Object.hasOwn(all, name) ? (all[name] as number) : 0;
  const byOutcome = [...outcomes].map(
    (name) => [name, counts(({ shed, failed }) => own(shed, name) + own(failed, name))] as const,
  );
  const layers: Layer[] = [
    { name: "late", kind: "answered", pattern: "late", counts: counts(({ late }) => late) },
    ...layersOf({ by_outcome: Object.fromEntries(byOutcome), offered: counts(({ offered }) => offered) }),
    { name: "left by the caller", kind: "edge", pattern: "edge", counts: counts(({ aborted }) => aborted) },
  ];
  return layers.filter(({ counts: of }) => of.some((n) => n > 0));
};

const LEAST_SAID = 0.001;

const lostFinding = (curve: Curve, layers: readonly Layer[]): string => {
  const { levels } = curve;
  const at = levels.reduce((top, { ratePerS }, i) => (ratePerS > (levels[top] as CurveLevel).ratePerS ? i : top), 0);
  const { offered, ratePerS } = levels[at] as CurveLevel;
  const parts = layers
    .map(({ name, counts }) => ({ name, n: counts[at] as number }))
    .filter(({ n }) => n > LEAST_SAID * offered)
    .sort((a, b) => b.n - a.n);
  const lost = parts.map(({ name, n }) => `${share(n, offered)} ${name}`);
  return lost.length === 0
    ? `At ${perSecond(ratePerS)} nothing is lost.`
    : `At ${perSecond(ratePerS)}: ${lost.join(", ")}.`;
};

const lostChart = (curve: Curve, axis: Axis): Chart => {
  const { levels } = curve;
  const layers = lostLayers(curve);
  const { y, height, ticks } = linear(130, 1, 4, (value) => `${figure(value * 100)} %`);
  const shareOf = (n: number, { offered }: CurveLevel): number => Math.min(1, n / Math.max(1, offered));
  const up = onWay(curve, "up");
  const lost = levels.map((_, i) => layers.reduce((sum, { counts }) => sum + (counts[i] as number), 0));
  const under = up.map(() => 0);
  const areas = layers.map(({ name, pattern, counts }) => {
    for (const [i, level] of up.entries()) under[i] = (under[i] as number) + (counts[levels.indexOf(level)] as number);
    const points = up.map((level, i): [number, number] => [
      axis.x(level.ratePerS),
      y(shareOf(under[i] as number, level)),
    ]);
    // As wide as the axis beside the first and the last level, so that a single one is seen as well.
    const [first, last] = [points[0], points.at(-1)];
    if (first === undefined || last === undefined) return null;
    const d = `${pathThrough([[0, first[1]], ...points, [WIDTH, last[1]]])}V${height}H0z`;
    return html`<path ${fillOf(pattern ?? "answered")} stroke="none" d="${d}"><title>${name}</title></path>`;
  });
  const down = onWay(curve, "down").map((level): [number, number] => [
    axis.x(level.ratePerS),
    y(shareOf(lost[levels.indexOf(level)] as number, level)),
  ]);
  const downKey = down.length === 0 ? [] : [{ swatch: swatch("line p99"), text: "all of them, on the way down" }];
  return {
    id: "curve-lost",
    height,
    unit: "share",
    title: "What became of the others.",
    finding: lostFinding(curve, layers),
    description:
      "The same rates across; up the share of calls that were not good, on the way up, stacked by what came of them. A dashed line is the whole share on the way down.",
    across: axis.across,
    acrossName: "calls/s offered, logarithmic",
    up: ticks,
    drawn: html`${areas.toReversed()}<path class="line p99" d="${pathThrough(down)}"/>`,
    keys: [
      ...layers.map(({ name, pattern }) => ({ swatch: swatch(`fill ${pattern ?? "answered"}`), text: name })),
      ...downKey,
    ],
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
  const broken = claims.filter(
    ({ id, stage, verdict }) => verdict === "fail" && stage === curve.stage && groupOf(id) === "curve",
  );
  const charts = [
    goodputChart(
      curve,
      broken.map(({ reason }) => reason),
      axis,
    ),
    lostChart(curve, axis),
  ];
  return card(
    "curve",
    "Shedding by load",
    html`<p class="small muted">${objectiveText(curve)}</p>`,
    charts.map((chart) => chartFigure(chart)),
  );
};

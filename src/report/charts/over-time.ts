/** What all charts over time share: scales, axis, bands of faults, lines, limits, keys, rows of the table. */
import { scaleLinear, scaleLog } from "d3-scale";
import { figure, milliseconds } from "../figures.ts";
import { html, type Markup } from "../page/markup.ts";
import { type ChartSeries, rowTimes, stepPath, type Values, xOf } from "./chart-series.ts";
import { type LineShape, swatch } from "./fills.ts";
import { type Cell, type Chart, inFrame, percent, type Tick, WIDTH } from "./frame.ts";

/** A vertical axis: where a value is drawn, and the texts beside it. */
export type Scale = { y(value: number): number; height: number; top: number; ticks: Tick[] };

/** A linear axis from 0 to `most` or a little more, with about `ticks` values; those without a `text` are left out. */
export const linear = (
  height: number,
  most: number,
  ticks: number,
  text: (value: number) => string | null = figure,
): Scale => {
  const y = scaleLinear([0, most], [height, 0]).nice(ticks);
  const all = y.ticks(ticks).map((value) => ({ at: y(value) / height, text: text(value) ?? "" }));
  return { y, height, top: y.domain()[1] as number, ticks: all.filter((tick) => tick.text !== "") };
};

export const logarithmic = (height: number, low: number, high: number): Scale => {
  const y = scaleLog([low, high], [height, 0]);
  const ticks = logTicks(low, high).map((ms) => ({ at: y(ms) / height, text: milliseconds(ms) }));
  return { y, height, top: high, ticks };
};

/** Ticks within a decade, from the fewest to the most. */
const STEPS = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 5, 7], [1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9]];
const DECADES = [0.001, 0.01, 0.1, 1, 10, 100, 1_000, 10_000, 100_000];
const TICKS_LEAST = 3;
const TICKS_MOST = 6;

/** Round durations along a logarithmic scale, mostly three to six. */
export const logTicks = (lowMs: number, highMs: number): number[] => {
  const all = STEPS.map((steps) =>
    DECADES.flatMap((decade) => steps.map((step) => step * decade)).filter((ms) => ms >= lowMs && ms <= highMs),
  );
  const few = all.filter(({ length }, i) => i === 0 || length <= TICKS_MOST);
  return few.find(({ length }) => length >= TICKS_LEAST) ?? (few.at(-1) as number[]);
};

const TIME_TICKS = 6;
/** From this span on, times are written in minutes. */
const MINUTES_FROM_S = 120;

export const timeTicks = ({ spanS }: ChartSeries): Tick[] => {
  const [unitS, unit] = spanS >= MINUTES_FROM_S ? [60, "min"] : [1, "s"];
  return scaleLinear([0, spanS / unitS], [0, 1])
    .ticks(TIME_TICKS)
    .filter((value) => value * unitS < spanS * 0.985)
    .map((value) => ({ at: (value * unitS) / spanS, text: value === 0 ? "0" : `${value} ${unit}` }));
};

/** Bands of faults, and marks: filled if the fault took effect, else an empty dashed frame. */
export const bandShapes = (stage: ChartSeries, height: number): Markup[] => [
  ...stage.bands.map(({ fromS, toS, tookEffect, name }) => {
    const x = xOf(stage, Math.max(0, fromS));
    const width = (xOf(stage, Math.min(stage.spanS, toS)) - x).toFixed(1);
    return html`<rect class="${tookEffect ? "band" : "band empty"}" x="${x}" width="${width}" height="${height}"><title>${name}</title></rect>`;
  }),
  ...stage.marks.map(
    ({ atS, name }) => html`<path class="mark" d="M${xOf(stage, atS)} 0V${height}"><title>${name}</title></path>`,
  ),
];

/** The share of the axis that a name takes, so that names do not overlap. */
const NAME_ROOM = 0.25;

/** Names of bands and marks, above the drawing. */
const bandLabels = ({ bands, marks, spanS }: ChartSeries): Markup[] => {
  const names = [
    ...bands.map(({ fromS, name, tookEffect }) => ({ s: fromS, text: `${name}${tookEffect ? "" : ", no effect"}` })),
    ...marks.map(({ atS, name }) => ({ s: atS, text: name })),
  ].sort((a, b) => a.s - b.s);
  let free = -1;
  return names.flatMap(({ s, text }) => {
    const at = Math.max(0, s / spanS);
    if (at < free) return [];
    free = at + NAME_ROOM;
    const anchor = at > 1 - NAME_ROOM ? html` text-anchor="end"` : null;
    return html`<text class="band-name" data-s="${s.toFixed(2)}" x="${percent(at)}" y="${inFrame(-6)}"${anchor}>${text}</text>`;
  });
};

type OverTime = Pick<Chart, "id" | "title" | "finding" | "description" | "unit" | "keys"> & {
  scale: Scale;
  /** Drawn under the bands of faults. */
  under?: Markup;
  /** Lines without values are left out. `halo`: readable over a map; `of`: the stage of the bins, if another. */
  lines: readonly { text: string; shape: LineShape; values: Values; halo?: true; of?: ChartSeries }[];
  limits?: readonly { limit: number; text: string }[];
  /** A cell for each row of the stage. */
  columns: readonly (readonly [name: string, cells: readonly Cell[]])[];
};

export const overTime = (stage: ChartSeries, spec: OverTime): Chart => {
  const { scale, under, limits = [], keys = [], columns, lines, ...about } = spec;
  const { y, height } = scale;
  const drawn = lines
    .map(({ values, of = stage, ...line }) => ({ ...line, path: stepPath(of, values, y) }))
    .filter(({ path }) => path !== "");
  const paths = drawn.map(({ path, shape, halo, text }) =>
    halo === undefined
      ? html`<path class="${shape}" d="${path}"/>`
      : html`<g class="halo"><path id="${about.id}-${text}" d="${path}"/></g><use class="${shape}" href="#${about.id}-${text}"/>`,
  );
  const limitLines = limits.map(({ limit }) => html`<path class="limit" d="M0 ${y(limit).toFixed(1)}H${WIDTH}"/>`);
  const limitNames = limits.map(
    ({ limit, text }) =>
      html`<text class="limit-name" x="100%" y="${inFrame(y(limit) - 4)}" text-anchor="end">${text}</text>`,
  );
  return {
    ...about,
    height,
    isOverTime: true,
    across: timeTicks(stage),
    up: scale.ticks,
    drawn: html`${under ?? null}${bandShapes(stage, height)}${limitLines}${paths}`,
    labels: html`${bandLabels(stage)}${limitNames}`,
    keys: [...drawn.map(({ shape, text }) => ({ swatch: swatch(shape), text })), ...keys],
    table: {
      head: ["from", ...columns.map(([name]) => name)],
      rows: rowTimes(stage).map((time, i) => [time, ...columns.map(([, cells]) => cells[i] ?? null)]),
      rowS: stage.binS * stage.binsInRow,
    },
  };
};

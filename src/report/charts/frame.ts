/**
 * The frame of a chart: a caption that states the finding, an image with a title and a description, axes, keys, and the
 * same numbers as a table; the charts of a stage share one table. A nested svg stretches the drawing to any width, but
 * not the texts. Colours are attributes too, for pages whose style is not admitted.
 */
import { scaleLinear, scaleLog } from "d3-scale";
import { figure, milliseconds } from "../figures.ts";
import { html, type Markup, prose } from "../page/markup.ts";
import { type ChartSeries, rowTimes, stepPath, type Values, WIDTH, xOf } from "./chart-series.ts";
import { type Key, type LineShape, swatch } from "./layers.ts";

/** Pixels above the drawing, for the unit, and below, for the times. */
const ABOVE = 20;
/** The part of a narrow screen's chart that the label of a tick takes. */
const NARROW_LABEL = 0.12;
const BELOW = 22;

/** `at`: share of the axis, where 0 is left or above. */
type Tick = { at: number; text: string };
export type Cell = string | number | null;
/** `rowS`: seconds that a row covers, in a chart over time. Cursor and zoom work in these only. */
type Table = { head: readonly string[]; rows: readonly (readonly Cell[])[]; rowS?: number };
/** A horizontal line across the drawing, at a height in its units. */
type Limit = { y: number; text: string };
/** `d` is a path, empty for no line; `text` is for its key; `halo`: readable over a map. */
type Line = { shape: LineShape; d: string; text?: string; halo?: boolean };

/** `finding`: what the chart shows, in words; `description`: its axes and shapes; the drawing is WIDTH by `height`. */
export type Chart = Record<"id" | "title" | "finding" | "description", string> & {
  height: number;
  unit?: string;
  across: readonly Tick[];
  acrossName?: string;
  up: readonly Tick[];
  /** Drawn under lines and limits. */
  drawn?: Markup;
  lines?: readonly Line[];
  limits?: readonly Limit[];
  labels?: readonly (Markup | null)[];
  keys?: readonly Key[];
  table: Table;
  /** Has a vertical line at each tick. */
  hasGrid?: true;
  /** More room at the left, for names. */
  isNamed?: true;
};

const percent = (share: number): string => `${Number((share * 100).toFixed(2))}%`;
/** Converts a height of the drawing to pixels of the frame. */
const inFrame = (y: number): number => Number((ABOVE + y).toFixed(1));

/** A place over the drawing: a share of its width, and a height in its units. */
type Place = readonly [x: number, y: number];

export const dot = (style: string, [x, y]: Place, r = 4.5): Markup =>
  html`<circle class="${style}" fill="currentColor" cx="${percent(x)}" cy="${inFrame(y)}" r="${r}"/>`;

/** A straight line over the drawing, such as an interval. */
export const spread = (style: string, [x1, y1]: Place, [x2, y2]: Place): Markup =>
  html`<line class="${style}" x1="${percent(x1)}" x2="${percent(x2)}" y1="${inFrame(y1)}" y2="${inFrame(y2)}" stroke="currentColor"/>`;

/** A text over the drawing. `s`: its moment in a chart over time, which a zoom moves. */
export const label = (
  style: "limit-name" | "band-name",
  text: string,
  [x, y]: Place,
  { anchor, dx, s }: { anchor?: "middle" | "end"; dx?: number; s?: number } = {},
): Markup =>
  html`<text class="${style}"${s !== undefined && html` data-s="${s.toFixed(2)}"`} x="${percent(x)}"${dx !== undefined && html` dx="${dx}"`} y="${Math.round(inFrame(y))}"${anchor && html` text-anchor="${anchor}"`}>${text}</text>`;

/** Cells and rows have no end tags, as HTML allows: tables are a third of a page with many stages. */
const tableOf = ({ head, rows, rowS }: Table, name: string, above: Markup | null): Markup => {
  const heads = html`<tr>${head.map((text) => html`<th>${text}`)}`;
  const lines = rows.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell ?? "–"}`)}`);
  const seconds = rowS !== undefined && html` data-row="${Number(rowS.toFixed(6))}"`;
  return html`<details class="numbers"><summary>${name}</summary><div class="scroll" tabindex="0" role="group" aria-label="table"><table class="figures"${seconds}><thead>${above}${heads}<tbody>${lines}</table></div></details>`;
};

/** `columns`: the chart's columns of a shared table; without them the chart has its own table. */
export const chartFigure = (chart: Chart, columns?: readonly [from: number, to: number]): Markup => {
  const { id, title, finding, description, height, unit, across, up, drawn, limits = [], labels = [] } = chart;
  const { acrossName, table, hasGrid, isNamed } = chart;
  const isOverTime = table.rowS !== undefined;
  const lines = (chart.lines ?? []).filter(({ d }) => d !== "");
  const paths = lines.map(({ shape, d, halo, text }) =>
    halo === true
      ? html`<g class="halo"><path id="${id}-${text}" d="${d}"/></g><use class="${shape}" href="#${id}-${text}"/>`
      : html`<path class="${shape}" d="${d}"/>`,
  );
  const ofLines = lines.flatMap(({ shape, text }) => (text === undefined ? [] : { swatch: swatch(shape), text }));
  const keys = [...ofLines, ...(chart.keys ?? [])];
  const legend = html`<ul class="keys">${keys.map((key) => html`<li>${key.swatch} ${key.text}</li>`)}</ul>`;
  const below = ABOVE + height + BELOW + (acrossName === undefined ? 0 : 16);
  const name = acrossName && html`<text x="100%" y="${below - 4}" text-anchor="end">${acrossName}</text>`;
  const scale = up.map(({ text, at }) => html`<text x="-8" y="${Math.round(ABOVE + at * height) + 4}">${text}</text>`);
  // Grid lines are as wide as the drawing, at any zoom.
  const grid = [
    ...up.map(({ at }) => `M0 ${Math.round(at * height)}h${WIDTH}`),
    ...(hasGrid ? across.map(({ at }) => `M${(at * WIDTH).toFixed(1)} 0V${height}`) : []),
  ].join("");
  let lastAt = Number.NEGATIVE_INFINITY;
  const ticks = across.map(({ at, text }) => {
    const anchor = at > 0.97 ? "end" : at < 0.03 && !isOverTime ? "start" : null;
    // On a narrow screen only as many labels are shown as have room beside each other.
    const isSpare = at - lastAt < NARROW_LABEL;
    if (!isSpare) lastAt = at;
    return html`<text${isSpare && html` class="spare"`} x="${percent(at)}" y="${ABOVE + height + 16}"${anchor && html` text-anchor="${anchor}"`}>${text}</text>`;
  });
  const limitLines = limits.map(({ y }) => html`<path class="limit" d="M0 ${y.toFixed(1)}H${WIDTH}"/>`);
  const limitNames = limits.map(({ y, text }) => label("limit-name", text, [1, y - 4], { anchor: "end" }));
  return html`<figure class="chart${isOverTime && " timed"}${isNamed && " named"}" id="${id}"${columns && html` data-columns="${columns.join(" ")}"`}><figcaption><span class="what">${title}</span> ${prose(finding)}</figcaption>${keys.length > 0 && legend}
<svg class="frame" role="img" aria-labelledby="${id}-t ${id}-d" width="100%" height="${below}" overflow="visible" fill="currentColor"><title id="${id}-t">${title}</title><desc id="${id}-d">${description}</desc>
${unit && html`<text class="unit" x="-8" y="11" text-anchor="end">${unit}</text>`}<g text-anchor="end">${scale}</g><svg class="plot" y="${ABOVE}" width="100%" height="${height}" viewBox="0 0 ${WIDTH} ${height}" preserveAspectRatio="none" fill="none" stroke="currentColor"><path class="grid" stroke="#8884" d="${grid}"/>${drawn}${paths}${limitLines}</svg>
${labels}${limitNames}<g class="ticks" text-anchor="middle">${ticks}</g>${name}</svg>
${columns === undefined && tableOf(table, "Table", null)}</figure>`;
};

/** Charts that share an axis of time, with one table of all their columns. */
export const figuresOverTime = (charts: readonly Chart[]): Markup => {
  const [first] = charts;
  if (first === undefined) return html``;
  let to = 1;
  const figures = charts.map((chart) => {
    const from = to;
    to += chart.table.head.length - 1;
    return chartFigure(chart, [from, to]);
  });
  // A head above the columns of each chart names them together.
  const names = charts.map(({ title, table: { head } }) => {
    return html`<th colspan="${head.length - 1}">${title.replace(/[.,].*$/, "")}`;
  });
  const joined = <T>(of: (table: Table) => readonly T[] | undefined): T[] =>
    charts.flatMap(({ table }, i) => of(table)?.slice(i === 0 ? 0 : 1) ?? []);
  const rows = first.table.rows.map((_, i) => joined(({ rows: all }) => all[i]));
  const table = { ...first.table, head: joined(({ head }) => head), rows };
  const shared = tableOf(table, "Table of these charts", html`<tr><th>${names}`);
  return html`${figures}<div class="all-figures">${shared}</div>`;
};

/** A vertical axis: where a value is drawn, and the texts beside it. */
export type Scale = { y(value: number): number; height: number; top: number; ticks: Tick[] };

/** A linear axis from 0 to `most` or a little more, with about `ticks` values; those without a `text` are left out. */
export const linear = (height: number, most: number, ticks: number, text: (n: number) => string | null = figure) => {
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

/** A stretch of the axis, in units of the drawing: an empty dashed frame unless `isFilled`. */
export const band = ([from, to]: readonly [number, number], height: number, title: string, isFilled = true): Markup =>
  html`<rect class="band${!isFilled && " empty"}" x="${from.toFixed(1)}" width="${Math.max(0, to - from).toFixed(1)}" height="${height}"><title>${title}</title></rect>`;

/** Bands of faults, filled if the fault took effect, and marks. */
export const bandShapes = (stage: ChartSeries, height: number): Markup[] => [
  ...stage.bands.map(({ fromS, toS, tookEffect, name }) =>
    band([xOf(stage, Math.max(0, fromS)), xOf(stage, Math.min(stage.spanS, toS))], height, name, tookEffect),
  ),
  ...stage.marks.map(
    ({ atS, name }) => html`<path class="mark" d="M${xOf(stage, atS)} 0V${height}"><title>${name}</title></path>`,
  ),
];

/** The share of the axis that a name takes, so that names do not overlap. */
const NAME_ROOM = 0.25;

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
    return label("band-name", text, [at, -6], { s, ...(at > 1 - NAME_ROOM && { anchor: "end" }) });
  });
};

type OverTime = Pick<Chart, "id" | "title" | "finding" | "description" | "unit" | "keys"> & {
  scale: Scale;
  /** Drawn under the bands of faults. */
  under?: Markup;
  /** `of`: the stage of the bins, if another. */
  lines: readonly (Omit<Line, "d"> & { values: Values; of?: ChartSeries })[];
  limits?: readonly { limit: number; text: string }[];
  /** A cell for each row of the stage. */
  columns: readonly (readonly [name: string, cells: readonly Cell[]])[];
};

/** A chart over the time of a stage: its scale, axis, bands of faults, lines, limits, keys and rows of the table. */
export const overTime = (stage: ChartSeries, spec: OverTime): Chart => {
  const { scale, under, limits = [], columns, lines, ...about } = spec;
  const { y, height } = scale;
  return {
    ...about,
    height,
    across: timeTicks(stage),
    up: scale.ticks,
    drawn: html`${under}${bandShapes(stage, height)}`,
    lines: lines.map(({ values, of = stage, ...line }) => ({ ...line, d: stepPath(of, values, y) })),
    limits: limits.map(({ limit, text }) => ({ y: y(limit), text })),
    labels: bandLabels(stage),
    table: {
      head: ["from", ...columns.map(([name]) => name)],
      rows: rowTimes(stage).map((time, i) => [time, ...columns.map(([, cells]) => cells[i] ?? null)]),
      rowS: stage.binS * stage.binsInRow,
    },
  };
};

/**
 * The frame of a chart: a caption that states the finding, an image with a title and a description, axes, keys, and the
 * same numbers as a table; the charts of a stage share one table. A nested svg stretches the drawing to any width, but
 * not the texts. Colours are attributes too, for pages whose style is not admitted.
 */
import { html, type Markup } from "../page/markup.ts";

/** The width of the drawing in its own units; it is stretched to the width of the page. */
export const WIDTH = 640;
/** Pixels above the drawing, for the unit, and below, for the times. */
const ABOVE = 20;
const BELOW = 22;

/** `at`: share of the axis, where 0 is left or above. */
export type Tick = { at: number; text: string };
export type Key = { swatch: Markup; text: string };
export type Cell = string | number | null;
/** `rowS`: seconds that a row covers. */
type Table = { head: readonly string[]; rows: readonly (readonly Cell[])[]; rowS?: number };

/** `finding`: what the chart shows, in words; `description`: its axes and shapes; `drawn`: WIDTH by `height`. */
export type Chart = Record<"id" | "title" | "finding" | "description", string> & {
  height: number;
  unit?: string;
  across: readonly Tick[];
  acrossName?: string;
  up: readonly Tick[];
  drawn: Markup;
  labels?: Markup;
  keys?: readonly Key[];
  table: Table;
  /** Cursor and zoom work in charts over time only. */
  isOverTime?: true;
  /** More room at the left, for names. */
  isNamed?: true;
};

export const percent = (share: number): string => `${Number((share * 100).toFixed(2))}%`;

/** Cells and rows have no end tags, as HTML allows: tables are a third of a page with many stages. */
const tableOf = ({ head, rows, rowS }: Table, name: string, above: Markup | null): Markup => {
  const heads = html`<tr>${head.map((text) => html`<th>${text}`)}`;
  const lines = rows.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell ?? "–"}`)}`);
  const seconds = rowS === undefined ? null : html` data-row="${Number(rowS.toFixed(6))}"`;
  return html`<details class="numbers"><summary>${name}</summary><div class="scroll" tabindex="0" role="group" aria-label="table"><table class="figures"${seconds}><thead>${above}${heads}<tbody>${lines}</table></div></details>`;
};

/** `columns`: the chart's columns of a shared table; without them the chart has its own table. */
export const chartFigure = (chart: Chart, columns?: readonly [from: number, to: number]): Markup => {
  const { id, title, finding, description, height, unit, across, up, drawn, labels, keys = [], acrossName } = chart;
  const legend = html`<ul class="keys">${keys.map((key) => html`<li>${key.swatch} ${key.text}</li>`)}</ul>`;
  const below = ABOVE + height + BELOW + (acrossName === undefined ? 0 : 16);
  const name = acrossName && html`<text x="100%" y="${below - 4}" text-anchor="end">${acrossName}</text>`;
  const above = unit && html`<text class="unit" x="-8" y="11" text-anchor="end">${unit}</text>`;
  const own = columns && html` data-columns="${columns.join(" ")}"`;
  const scale = up.map(({ text, at }) => html`<text x="-8" y="${Math.round(ABOVE + at * height) + 4}">${text}</text>`);
  // Grid lines are as wide as the drawing, at any zoom.
  const grid = up.map(({ at }) => `M0 ${Math.round(at * height)}h${WIDTH}`).join("");
  const ticks = across.map(({ at, text }) => {
    const anchor = at > 0.97 ? "end" : at < 0.03 && !chart.isOverTime ? "start" : null;
    return html`<text x="${percent(at)}" y="${ABOVE + height + 16}"${anchor === null ? null : html` text-anchor="${anchor}"`}>${text}</text>`;
  });
  return html`<figure class="chart${chart.isOverTime ? " timed" : ""}${chart.isNamed ? " named" : ""}" id="${id}"${own ?? null}><figcaption><span class="what">${title}</span> ${finding}</figcaption>${keys.length === 0 ? null : legend}
<svg class="frame" role="img" aria-labelledby="${id}-t ${id}-d" width="100%" height="${below}" overflow="visible" fill="currentColor"><title id="${id}-t">${title}</title><desc id="${id}-d">${description}</desc>
${above ?? null}<g text-anchor="end">${scale}</g><svg class="plot" y="${ABOVE}" width="100%" height="${height}" viewBox="0 0 ${WIDTH} ${height}" preserveAspectRatio="none" fill="none" stroke="currentColor"><path class="grid" stroke="#8884" d="${grid}"/>${drawn}</svg>
${labels ?? null}<g class="ticks" text-anchor="middle">${ticks}</g>${name ?? null}</svg>
${columns === undefined ? tableOf(chart.table, "Table", null) : null}</figure>`;
};

/** Charts that share an axis of time, with one table of all their columns. */
export const figuresOverTime = (charts: readonly Chart[]): Markup => {
  const [first] = charts;
  if (first === undefined) return html``;
  let from = 1;
  const figures = charts.map((chart) => {
    const columns = [from, from + chart.table.head.length - 1] as const;
    from = columns[1];
    return chartFigure(chart, columns);
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

/** A dot over the drawing: `x` as a share of the width, `y` in pixels of the frame. */
export const dot = (style: string, x: string, y: number | string, r = 4.5): Markup =>
  html`<circle class="${style}" fill="currentColor" cx="${x}" cy="${y}" r="${r}"/>`;

/** A straight line over the drawing, such as an interval. */
export const spread = (style: string, [x1, x2]: readonly string[], [y1, y2]: readonly number[]): Markup =>
  html`<line class="${style}" x1="${x1 ?? ""}" x2="${x2 ?? ""}" y1="${y1 ?? ""}" y2="${y2 ?? ""}" stroke="currentColor"/>`;

/** Converts a height of the drawing to pixels of the frame, for labels beside lines. */
export const inFrame = (y: number): number => Math.round(ABOVE + y);

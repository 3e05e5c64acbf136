/**
 * The frame that every chart stands in: a caption that states the finding, an image with a title and a description, axes,
 * keys, and the same numbers as a table. What is drawn is stretched to any width (a nested svg); what is written is not.
 * Lines and texts carry their colours as attributes too, for pages whose style is not let through.
 */
import { html, type Markup } from "../page/markup.ts";

/** Units of the drawing across; it is stretched to the width there is. */
export const WIDTH = 640;
/** Pixels above the drawing, for the unit, and below, for the times. */
const ABOVE = 20;
const BELOW = 22;

export type Tick = { /** Share of the axis: 0 is left or above. */ at: number; text: string };
export type Key = { swatch: Markup; text: string };
type Table = {
  head: readonly string[];
  rows: readonly (readonly (string | number | null)[])[];
  /** Seconds that a row stands for, where rows are times. */
  rowS?: number;
};

export type Chart = {
  /** Unique in the page. */
  id: string;
  /** What is drawn. */
  title: string;
  /** What is to be seen: a sentence. */
  finding: string;
  /** For those who do not see it: axes and shapes in words. */
  description: string;
  /** Pixels of the drawing. */
  height: number;
  unit: string;
  across: readonly Tick[];
  up: readonly Tick[];
  /** Shapes in a box of WIDTH by `height`. */
  drawn: Markup;
  /** Texts over the drawing. */
  labels?: Markup;
  keys?: readonly Key[];
  /** The name of what the horizontal axis shows; times need none. */
  acrossName?: string;
  table: Table;
  /** Cursor and zoom go through charts over time alone. */
  isOverTime: boolean;
  /** More room at the left, for names. */
  isNamed?: true;
};

export const percent = (share: number): string => `${Number((share * 100).toFixed(2))}%`;

const grid = ({ up, height }: Chart): Markup => {
  const ys = up.map(({ at }) => Math.round(ABOVE + at * height));
  const lines = ys.map((y) => html`<line x1="0" x2="100%" y1="${y}" y2="${y}"/>`);
  const texts = up.map(({ text }, i) => html`<text x="-8" y="${(ys[i] as number) + 4}">${text}</text>`);
  return html`<g class="grid" stroke="#8884">${lines}</g><g text-anchor="end" fill="currentColor">${texts}</g>`;
};

const acrossTicks = ({ across, height, isOverTime }: Chart): Markup[] =>
  across.map(({ at, text }) => {
    const anchor = at > 0.97 ? "end" : at < 0.03 && !isOverTime ? "start" : "middle";
    return html`<text x="${percent(at)}" y="${ABOVE + height + 16}" text-anchor="${anchor}">${text}</text>`;
  });

const tableOf = ({ head, rows, rowS }: Table): Markup => {
  const heads = head.map((name) => html`<th>${name}</th>`);
  const lines = rows.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell ?? "–"}</td>`)}</tr>`);
  const seconds = rowS === undefined ? null : html` data-row="${Number(rowS.toFixed(6))}"`;
  return html`<div class="scroll" tabindex="0" role="group" aria-label="table"><table class="figures"${seconds}><thead><tr>${heads}</tr></thead><tbody>${lines}</tbody></table></div>`;
};

export const chartFigure = (chart: Chart): Markup => {
  const { id, title, finding, description, height, unit, drawn, labels, keys = [], acrossName, table } = chart;
  const legend =
    keys.length === 0
      ? null
      : html`<ul class="keys">${keys.map((key) => html`<li>${key.swatch} ${key.text}</li>`)}</ul>`;
  const cursor = chart.isOverTime
    ? html`<line class="cursor" x1="0" x2="0" y1="${ABOVE}" y2="${ABOVE + height}" visibility="hidden" stroke="currentColor"/>`
    : null;
  const below = ABOVE + height + BELOW + (acrossName === undefined ? 0 : 16);
  const name =
    acrossName === undefined
      ? null
      : html`<text x="100%" y="${below - 4}" text-anchor="end" fill="currentColor">${acrossName}</text>`;
  return html`<figure class="chart${chart.isOverTime ? " timed" : ""}${chart.isNamed ? " named" : ""}" id="${id}"><figcaption><span class="what">${title}</span> ${finding}</figcaption>${legend}
<svg class="frame" role="img" aria-labelledby="${id}-t ${id}-d" width="100%" height="${below}" overflow="visible"><title id="${id}-t">${title}</title><desc id="${id}-d">${description}</desc>
<text class="unit" x="-8" y="11" text-anchor="end" fill="currentColor">${unit}</text>${grid(chart)}
<svg class="plot" x="0" y="${ABOVE}" width="100%" height="${height}" viewBox="0 0 ${WIDTH} ${height}" preserveAspectRatio="none">${drawn}</svg>
${labels ?? null}<g class="ticks" fill="currentColor">${acrossTicks(chart)}</g>${name}${cursor}</svg>
<p class="read" hidden></p><details class="numbers"><summary>Table</summary>${tableOf(table)}</details></figure>`;
};

/** Where a drawn height is in the frame, in pixels: for labels beside lines. */
export const inFrame = (y: number): number => Math.round(ABOVE + y);

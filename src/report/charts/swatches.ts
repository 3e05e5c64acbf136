/** The samples of lines and fills in the keys of charts: each is drawn once in a page, and every key points at it. */
import { html, type Markup } from "../page/markup.ts";

/** Of a fill: classes of `HeatMap.hue`. */
export const HUES = ["kind-answered", "kind-shed", "kind-refused", "kind-error"] as const;
export type Hue = (typeof HUES)[number];

/** Shades of a hue, as in the sample of a map. */
const SHADES = [0.16, 0.58, 1] as const;

/** The classes of lines that stand in keys. */
const LINES = ["line", "line p50", "line p99", "line callers", "line gauges", "line lag"] as const;

export type LineShape = (typeof LINES)[number];

const idOf = (shape: string): string => `key-${shape.replaceAll(" ", "-")}`;

const sample = (width: number, id: string): Markup =>
  html`<svg class="swatch" width="${width}" height="14" aria-hidden="true"><use href="#${id}"/></svg>`;

export const lineSwatch = (shape: LineShape): Markup => sample(22, idOf(shape));
export const hueSwatch = (hue: Hue): Markup => sample(42, idOf(hue));
export const doubtSwatch = (): Markup => sample(14, "key-doubt");

/** Of a layer of calls, by its pattern, or by its kind where it has none. */
export const fillSwatch = (name: string): Markup => sample(14, `key-fill-${name}`);

/** What the keys point at; `fills` are the layers' own. Once in a page. */
export const swatchDefs = (fills: readonly { name: string; drawn: Markup }[]): Markup => {
  const lines = LINES.map(
    (shape) =>
      html`<g id="${idOf(shape)}" fill="none" stroke="currentColor"><path class="halo" d="M0 7H22"/><path class="${shape}" d="M0 7H22"/></g>`,
  );
  const hues = HUES.map(
    (hue) =>
      html`<g id="${idOf(hue)}" class="${hue}" fill="currentColor">${SHADES.map((opacity, i) => html`<path opacity="${opacity}" d="M${i * 14} 0h14v14h-14z"/>`)}</g>`,
  );
  const layers = fills.map(({ name, drawn }) => html`<g id="key-fill-${name}">${drawn}</g>`);
  return html`${lines}${hues}${layers}<path id="key-doubt" class="doubt" fill="#8883" d="M0 0h14v14h-14z"/>`;
};

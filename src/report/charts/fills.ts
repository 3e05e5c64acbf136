/** Fills, lines and samples for keys, each defined once in a page. Patterns keep colour from being the only sign. */
import type { OutcomeKind } from "../outcome-kinds.ts";
import { html, type Markup } from "../page/markup.ts";

const PATTERNS: readonly (readonly [name: string, kind: OutcomeKind, size: number, turn: number, drawn: string])[] = [
  ["late", "answered", 6, 45, "M0 0V6"],
  ["error", "error", 7, 0, "M2 3.5h3M3.5 2v3"],
  ["shed", "shed", 8, 45, "M0 0V8"],
  ["shed-org", "shed", 7, 0, "M0 2H7"],
  ["refused", "refused", 8, 90, "M0 0V8"],
  ["refused-second", "refused", 8, 135, "M0 0V8"],
  ["refused-third", "refused", 6, 0, "M2 3h2"],
  ["edge", "edge", 6, 0, "M0 0V6"],
  ["indeterminate", "indeterminate", 6, 45, "M0 0V6M0 0H6"],
];

/** The attributes of a shape with this fill: `answered`, or the name of a pattern. */
export const fillOf = (name: string): Markup =>
  name === "answered" ? html`class="kind-answered" fill="currentColor"` : html`fill="url(#fill-${name})"`;

export const HUES = ["kind-answered", "kind-shed", "kind-refused", "kind-error"] as const;
export type Hue = (typeof HUES)[number];
/** The shades of a hue in the sample of a map. */
const SHADES = [0.16, 0.58, 1] as const;

const LINES = ["line", "line p50", "line p99", "line callers", "line gauges", "line lag"] as const;
export type LineShape = (typeof LINES)[number];

const idOf = (shape: string): string => `key-${shape.replaceAll(" ", "-")}`;

/** A sample for a key; `fill NAME` is the sample of a fill. */
export const swatch = (of: LineShape | Hue | "doubt" | `fill ${string}`): Markup => {
  const width = of.startsWith("line") ? 22 : of.startsWith("kind") ? 42 : 14;
  return html`<svg class="swatch" width="${width}" height="14" aria-hidden="true"><use href="#${idOf(of)}"/></svg>`;
};

/** Defines patterns and samples, once in a page, before their first use. */
export const fillDefs = (): Markup => {
  const patterns = PATTERNS.map(
    ([name, kind, size, turn, drawn]) =>
      html`<pattern id="fill-${name}" width="${size}" height="${size}" patternUnits="userSpaceOnUse" patternTransform="rotate(${turn})"><path class="kind-${kind}" d="M0 0H${size}V${size}H0Z"/><path class="layer-stroke" fill="none" stroke="currentColor" stroke-width="2" d="${drawn}"/></pattern>`,
  );
  const fills = ["answered", ...PATTERNS.map(([name]) => name)].map(
    (name) => html`<path id="${idOf(`fill ${name}`)}" ${fillOf(name)} d="M0 0H14V14H0Z"/>`,
  );
  const lines = LINES.map(
    (shape) =>
      html`<g id="${idOf(shape)}" fill="none" stroke="currentColor"><path class="halo" d="M0 7H22"/><path class="${shape}" d="M0 7H22"/></g>`,
  );
  const hues = HUES.map(
    (hue) =>
      html`<g id="${idOf(hue)}" class="${hue}" fill="currentColor">${SHADES.map((opacity, i) => html`<path opacity="${opacity}" d="M${i * 14} 0h14v14h-14z"/>`)}</g>`,
  );
  return html`<svg width="0" height="0" class="defs" aria-hidden="true"><defs>${patterns}${fills}${lines}${hues}<path id="key-doubt" class="doubt" fill="#8883" d="M0 0h14v14h-14z"/></defs></svg>`;
};

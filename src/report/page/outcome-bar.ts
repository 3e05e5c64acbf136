/**
 * The outcomes of a stage as one stacked bar, in SVG. Widths are per cent and nothing is scaled, so that letters stay
 * readable at any width; each kind has a pattern and each segment a letter, so that colour is never the only sign.
 */
import { count, share } from "../figures.ts";
import { OUTCOME_KINDS, type OutcomeKind, type OutcomeRow } from "../outcome-kinds.ts";
import { html, type Markup } from "./markup.ts";

/** Per cent below which a segment is drawn wider than it is: two calls of a thousand must not vanish. */
const LEAST = 0.8;
/** Per cent from which a letter fits on a narrow screen. */
const LETTER_FROM = 4;
const HEIGHT = 34;

const percent = (n: number): string => `${n.toFixed(3)}%`;

/** The fill of a kind and the pattern over it (answered is plain); `style` of the page gives both their colours. */
const filled = (kind: OutcomeKind, x: string, width: string, height: number): Markup => {
  const over =
    kind === "answered"
      ? null
      : html`<rect fill="url(#pattern-${kind})" x="${x}" width="${width}" height="${height}"/>`;
  return html`<rect class="kind-${kind}" x="${x}" width="${width}" height="${height}"/>${over}`;
};

type OutcomeBar = { svg: Markup /** Whether a segment is drawn wider than its share. */; widened: boolean };

export const outcomeBar = (rows: readonly OutcomeRow[], label: string): OutcomeBar => {
  const total = rows.reduce((sum, row) => sum + row.n, 0);
  const shown = rows.filter((row) => row.n > 0);
  const wanted = shown.map((row) => Math.max(LEAST, (100 * row.n) / total));
  const scale = 100 / wanted.reduce((sum, width) => sum + width, 0);
  let x = 0;
  const segments = shown.map((row, i) => {
    const width = wanted[i]! * scale;
    const at = x;
    x += width;
    const letter =
      width < LETTER_FROM * Math.max(1, row.key.length * 0.8)
        ? null
        : html`<text class="on-${row.kind}" x="${percent(at + width / 2)}" y="${HEIGHT / 2 + 5}" text-anchor="middle">${row.key}</text>`;
    const gap = i === 0 ? null : html`<rect class="gap" x="${percent(at)}" width="2" height="${HEIGHT}"/>`;
    const title = `${row.key}: ${row.outcome}, ${count(row.n)} calls, ${share(row.n, total)}`;
    return html`<g><title>${title}</title>${filled(row.kind, percent(at), percent(width), HEIGHT)}${gap}${letter}</g>`;
  });
  return {
    svg: html`<svg class="bar" width="100%" height="${HEIGHT}" role="img" aria-label="${label}">${segments}</svg>`,
    widened: shown.some((row) => (100 * row.n) / total < LEAST),
  };
};

/** The same fill and pattern in small, for legends and tables: drawn once in a page, by `patterns`. */
export const swatch = (kind: OutcomeKind): Markup =>
  html`<svg class="swatch" width="16" height="16" aria-hidden="true"><use href="#swatch-${kind}"/></svg>`;

/** The patterns themselves, and what swatches point at; once in a page, before the first bar. */
export const patterns = (): Markup => {
  const pattern = (kind: OutcomeKind, size: number, turn: number, drawn: Markup): Markup =>
    html`<pattern id="pattern-${kind}" class="pattern-${kind}" width="${size}" height="${size}" patternUnits="userSpaceOnUse" patternTransform="rotate(${turn})">${drawn}</pattern>`;
  const line = html`<path d="M0 0V8" stroke-width="3"/>`;
  const small = (Object.keys(OUTCOME_KINDS) as OutcomeKind[]).map(
    (kind) => html`<g id="swatch-${kind}">${filled(kind, "0", "16", 16)}</g>`,
  );
  return html`<svg width="0" height="0" class="defs" aria-hidden="true"><defs>
${pattern("error", 7, 0, html`<circle cx="3.5" cy="3.5" r="1.4" stroke="none"/>`)}
${pattern("shed", 8, 45, line)}
${pattern("refused", 8, 90, html`<path d="M0 0V8" stroke-width="2"/>`)}
${pattern("edge", 6, 0, html`<path d="M0 0V6" stroke-width="2"/>`)}
${pattern("indeterminate", 6, 45, html`<path d="M0 0V6M0 0H6" stroke-width="1.6"/>`)}
${small}</defs></svg>`;
};

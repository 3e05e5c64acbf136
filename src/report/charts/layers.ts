/** The outcomes of a stage as layers that lie on each other: together they are every call that was offered. */
import { outcomeOf } from "../../contract/refusals.ts";
import type { StageSeries } from "../../history/series.ts";
import { kindOf, OUTCOME_KINDS, type OutcomeKind } from "../outcome-kinds.ts";
import { html, type Markup } from "../page/markup.ts";

export type Layer = { name: string; kind: OutcomeKind; pattern: string | null; counts: number[] };

const ORG_OVERLOADED = outcomeOf("org_overloaded");

const NAMES: Readonly<Record<OutcomeKind, string>> = {
  answered: "answered",
  error: "answered with an error",
  shed: "shed",
  refused: "refused otherwise",
  edge: "edge",
  indeterminate: OUTCOME_KINDS.indeterminate.label,
};

/** Each way of shedding has a layer of its own, as has a refusal that is alone of its kind. */
export const layersOf = ({ by_outcome, offered }: StageSeries): Layer[] => {
  const layers = new Map<string, Layer>();
  const refusals = Object.keys(by_outcome).filter((outcome) => kindOf(outcome) === "refused");
  for (const [outcome, counts] of Object.entries(by_outcome)) {
    const kind = kindOf(outcome);
    const isAlone = kind === "refused" && refusals.length === 1;
    const name = kind === "shed" || isAlone ? outcome : NAMES[kind];
    const pattern = kind === "answered" ? null : outcome === ORG_OVERLOADED ? "shed-org" : kind;
    const layer = layers.get(name) ?? { name, kind, pattern, counts: offered.map(() => 0) };
    for (const [i, n] of counts.entries()) layer.counts[i] = (layer.counts[i] as number) + n;
    layers.set(name, layer);
  }
  const kinds = Object.keys(OUTCOME_KINDS) as OutcomeKind[];
  return [...layers.values()].sort((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind));
};

/** A shape in the colour of a layer, with its pattern. */
export const layerShapes = ({ kind, pattern, name }: Layer, d: string): Markup => {
  const fill = pattern === null ? html`class="kind-${kind}" fill="currentColor"` : html`fill="url(#layer-${pattern})"`;
  return html`<path ${fill} d="${d}"><title>${name}</title></path>`;
};

export const layerSwatch = (layer: Layer): Markup =>
  html`<svg class="swatch" width="14" height="14" aria-hidden="true">${layerShapes(layer, "M0 0H14V14H0Z")}</svg>`;

const STROKES: readonly (readonly [pattern: string, kind: OutcomeKind, size: number, turn: number, drawn: string])[] = [
  ["error", "error", 7, 0, "M2 3.5h3M3.5 2v3"],
  ["shed", "shed", 8, 45, "M0 0V8"],
  ["shed-org", "shed", 7, 0, "M0 2H7"],
  ["refused", "refused", 8, 90, "M0 0V8"],
  ["edge", "edge", 6, 0, "M0 0V6"],
  ["indeterminate", "indeterminate", 6, 45, "M0 0V6M0 0H6"],
];

/** The patterns of layers, each with its ground; once in a page. */
export const layerPatterns = (): Markup => {
  const patterns = STROKES.map(
    ([pattern, kind, size, turn, drawn]) =>
      html`<pattern id="layer-${pattern}" width="${size}" height="${size}" patternUnits="userSpaceOnUse" patternTransform="rotate(${turn})"><path class="kind-${kind}" d="M0 0H${size}V${size}H0Z"/><path class="layer-stroke" fill="none" stroke="currentColor" stroke-width="2" d="${drawn}"/></pattern>`,
  );
  return html`<svg width="0" height="0" class="defs" aria-hidden="true"><defs>${patterns}</defs></svg>`;
};

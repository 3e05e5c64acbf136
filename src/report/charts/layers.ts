/** The outcomes of a stage as stacked layers, which add up to every offered call. */
import { outcomeOf } from "../../contract/refusals.ts";
import type { StageSeries } from "../../history/series.ts";
import { known } from "../../history/statistics/counts.ts";
import { sumOf } from "../../history/statistics/statistics.ts";
import { kindOf, OUTCOME_KINDS, type OutcomeKind } from "../outcome-kinds.ts";
import { html, type Markup } from "../page/markup.ts";
import { areaPath, type ChartSeries } from "./chart-series.ts";
import { fillOf, swatch } from "./fills.ts";
import type { Key } from "./frame.ts";

export type Layer = { name: string; kind: OutcomeKind; pattern: string | null; counts: number[] };

const ORG_OVERLOADED = outcomeOf("org_overloaded");

/** Patterns of refusals that have their own layer, the most frequent first. */
const REFUSAL_PATTERNS = ["refused", "refused-second", "refused-third"] as const;

export const countsOf = ({ by_outcome, offered }: StageSeries, kind: OutcomeKind): number[] => {
  const own = Object.entries(by_outcome).filter(([outcome]) => kindOf(outcome) === kind);
  return offered.map((_, i) => sumOf(own.map(([, counts]) => counts[i] ?? 0)));
};

/** Makes the layers. Each way of shedding has its own, as have the most frequent refusals. */
export const layersOf = ({ by_outcome, offered }: Pick<StageSeries, "by_outcome" | "offered">): Layer[] => {
  const layers = new Map<string, Layer>();
  const refusals = Object.keys(by_outcome)
    .filter((outcome) => kindOf(outcome) === "refused")
    .sort((a, b) => sumOf(by_outcome[b] ?? []) - sumOf(by_outcome[a] ?? []));
  // If there are more refusals than patterns, the last pattern stands for all the rest.
  const named = refusals.length > REFUSAL_PATTERNS.length ? REFUSAL_PATTERNS.length - 1 : refusals.length;
  for (const [outcome, counts] of Object.entries(by_outcome)) {
    const kind = kindOf(outcome);
    const rank = Math.min(refusals.indexOf(outcome), named);
    const isNamed = kind === "shed" || (kind === "refused" && rank < named);
    const name = isNamed ? outcome : kind === "refused" ? "refused otherwise" : OUTCOME_KINDS[kind].label;
    const refusal = REFUSAL_PATTERNS[rank] ?? "refused";
    const other = outcome === ORG_OVERLOADED ? "shed-org" : kind;
    const pattern = kind === "answered" ? null : kind === "refused" ? refusal : other;
    const layer = known(layers, name, () => ({ name, kind, pattern, counts: offered.map(() => 0) }));
    for (const [i, n] of counts.entries()) layer.counts[i] = (layer.counts[i] as number) + n;
  }
  const kinds = Object.keys(OUTCOME_KINDS) as OutcomeKind[];
  const order = ({ kind, pattern }: Layer): number =>
    kinds.indexOf(kind) * 10 + (REFUSAL_PATTERNS as readonly (string | null)[]).indexOf(pattern);
  return [...layers.values()].sort((a, b) => order(a) - order(b));
};

/** The areas of the layers, the topmost first: each reaches to the bottom, and lower layers are drawn over it. */
export const layerAreas = (stage: ChartSeries, y: (perS: number) => number, height: number) => {
  const under = stage.series.offered.map(() => 0);
  const areas = layersOf(stage.series).map((layer) => {
    const tops = layer.counts.map((n, i) => {
      under[i] = (under[i] as number) + n;
      return n === 0 ? null : (under[i] as number) / stage.binS;
    });
    return { layer, d: areaPath(stage, tops, y, height) };
  });
  return areas.reverse();
};

export const layerShape = ({ layer: { pattern, name }, d }: { layer: Layer; d: string }): Markup =>
  html`<path ${fillOf(pattern ?? "answered")} stroke="none" d="${d}"><title>${name}</title></path>`;

export const layerKeys = (layers: readonly Layer[]): Key[] =>
  layers.map(({ pattern, name }) => ({ swatch: swatch(`fill ${pattern ?? "answered"}`), text: name }));

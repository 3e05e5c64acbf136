/** The outcomes of a stage as stacked layers, which add up to every offered call; and how layers and lines are drawn. */
import { outcomeOf, SHED_OUTCOMES } from "../../contract/refusals.ts";
import { classOf } from "../../history/line.ts";
import { HTTP_VERSIONS, type StageSummary } from "../../history/run-document.ts";
import type { StageSeries } from "../../history/series.ts";
import { known, sumOf } from "../../history/statistics/statistics.ts";
import { html, type Markup } from "../page/markup.ts";
import { areaPath, type ChartSeries } from "./chart-series.ts";

// Sorts outcomes into the six kinds that a reader has to distinguish. Only the two overload refusals are shedding.

export type OutcomeKind = "answered" | "error" | "shed" | "refused" | "edge" | "indeterminate";

/** In the order of the charts, with the words of the legend. */
export const OUTCOME_KINDS: Readonly<Record<OutcomeKind, { label: string; meaning: string }>> = {
  answered: { label: "answered", meaning: "a success" },
  error: { label: "answered, with an error inside", meaning: "status 200, and an error in the body or the stream" },
  shed: { label: "shed", meaning: "refused because of load" },
  refused: { label: "refused", meaning: "a definite no for another reason" },
  edge: { label: "edge", meaning: "an answer that the API's contract does not know, as of a load balancer" },
  indeterminate: {
    label: "indeterminate",
    meaning: "no answer: it may have happened or not; also a stream without one event (200 empty)",
  },
};

const KINDS = Object.keys(OUTCOME_KINDS) as OutcomeKind[];

export const kindOf = (outcome: string): OutcomeKind => {
  if (outcome.startsWith("edge")) return "edge";
  if (SHED_OUTCOMES.has(outcome)) return "shed";
  const kind = classOf(outcome);
  return kind === "answered" && outcome.includes("error") ? "error" : kind;
};

export type OutcomeRow = { key: string; outcome: string; kind: OutcomeKind; n: number };

/** A to Z, then AA, AB, …: the letter that joins a segment of a chart to its row, besides the colour. */
const letter = (i: number): string =>
  (i < 26 ? "" : letter(Math.floor(i / 26) - 1)) + String.fromCharCode(65 + (i % 26));

/** The outcomes of a stage by kind, within a kind the most frequent first. */
export const outcomeRows = (stage: StageSummary): OutcomeRow[] =>
  Object.entries(stage.by_outcome)
    .map(([outcome, n]) => ({ outcome, n, kind: kindOf(outcome) }))
    .sort((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || b.n - a.n || (a.outcome < b.outcome ? -1 : 1))
    .map((row, i) => ({ key: letter(i), ...row }));

/** The driver of a stage, and the version of HTTP seen on the wire: `k6, HTTP/2`. */
export const driverText = ({ driver, protocols = [] }: Pick<StageSummary, "driver" | "protocols">): string =>
  [driver, ...protocols.map((protocol) => HTTP_VERSIONS[protocol])].join(", ");

/** Patterns keep colour from being the only sign. */
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

export type Key = { swatch: Markup; text: string };

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

export type Layer = { name: string; kind: OutcomeKind; pattern: string; counts: number[] };

const ORG_OVERLOADED = outcomeOf("org_overloaded");

/** Patterns of refusals that have their own layer, the most frequent first. */
const REFUSAL_PATTERNS: readonly string[] = ["refused", "refused-second", "refused-third"];

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
    // An outcome that is not in `refusals` has rank -1, so it gets the pattern of its kind.
    const rank = Math.min(refusals.indexOf(outcome), named);
    const isNamed = kind === "shed" || (kind === "refused" && rank < named);
    const name = isNamed ? outcome : kind === "refused" ? "refused otherwise" : OUTCOME_KINDS[kind].label;
    const pattern = outcome === ORG_OVERLOADED ? "shed-org" : (REFUSAL_PATTERNS[rank] ?? kind);
    const layer = known(layers, name, () => ({ name, kind, pattern, counts: offered.map(() => 0) }));
    for (const [i, n] of counts.entries()) layer.counts[i] = (layer.counts[i] as number) + n;
  }
  const order = ({ kind, pattern }: Layer): number => KINDS.indexOf(kind) * 10 + REFUSAL_PATTERNS.indexOf(pattern);
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
  html`<path ${fillOf(pattern)} stroke="none" d="${d}"><title>${name}</title></path>`;

export const layerKeys = (layers: readonly Layer[]): Key[] =>
  layers.map(({ pattern, name }) => ({ swatch: swatch(`fill ${pattern}`), text: name }));

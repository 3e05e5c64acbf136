/** One stage as an SVG for a README, in light or dark: it has no style, and cannot know the theme of the page. */
import type { Series } from "../history/series.ts";
import { sumOf } from "../history/statistics/statistics.ts";
import { chartSeriesOf, stepPath, WIDTH } from "./charts/chart-series.ts";
import { linear, timeTicks } from "./charts/frame.ts";
import { type Layer, layerAreas, type OutcomeKind } from "./charts/layers.ts";
import { figure } from "./figures.ts";
import { html, type Markup } from "./page/markup.ts";

type Theme = { text: string; muted: string; line: string; kinds: Partial<Record<OutcomeKind, string>> };

export const THEMES: Readonly<Record<"light" | "dark", Theme>> = {
  light: {
    ...{ text: "#1b1f24", muted: "#545d68", line: "#d4dae1" },
    kinds: { answered: "#2b6cb0", shed: "#d9622b", refused: "#7a4aa3", error: "#85600f", indeterminate: "#20262d" },
  },
  dark: {
    ...{ text: "#e7eaee", muted: "#a3adba", line: "#303944" },
    kinds: { answered: "#74aee6", shed: "#f2925f", refused: "#c39ce3", error: "#d9b04f", indeterminate: "#f1f3f6" },
  },
};

const HEIGHT = 220;
const LEFT = 56;
const TOP = 64;
const SIZE = { width: LEFT + WIDTH + 16, height: TOP + HEIGHT + 34 };
const DETAIL = { binsMost: 90, rowsMost: 1 };

/** A whole SVG document. Throws `RangeError` if the run has no stage. */
export const pictureOf = (series: Series, theme: Theme): string => {
  const [busiest] = series.stages.toSorted((a, b) => sumOf(b.offered) - sumOf(a.offered));
  if (busiest === undefined) throw new RangeError("a picture needs a stage with calls");
  const stage = chartSeriesOf(busiest, DETAIL);
  const { binS, bands } = stage;
  const offered = stage.series.offered.map((n) => n / binS);
  const { y, ticks } = linear(HEIGHT, Math.max(...offered), 4);
  const colour = ({ kind }: Layer): string => theme.kinds[kind] ?? theme.muted;
  const areas = layerAreas(stage, y, HEIGHT);
  const shapes = areas.map(({ layer, d }) => html`<path fill="${colour(layer)}" d="${d}"/>`);
  const layers = areas.map(({ layer }) => layer).reverse();
  const faults = bands.map(({ fromS, toS, name }) => {
    const [from = 0, to = 0] = [fromS, toS].map((s) => (Math.min(Math.max(0, s), stage.spanS) / stage.spanS) * WIDTH);
    return html`<rect x="${from.toFixed(1)}" width="${(to - from).toFixed(1)}" height="${HEIGHT}" fill="${theme.text}" fill-opacity=".12"/><text x="${from.toFixed(1)}" y="-8" fill="${theme.text}">${name}</text>`;
  });
  const scale = ticks.map(({ at, text }) => {
    const row = Math.round(at * HEIGHT);
    return html`<path stroke="${theme.line}" d="M0 ${row}h${WIDTH}"/><text x="-8" y="${row + 4}" text-anchor="end">${text}</text>`;
  });
  const times = timeTicks(stage).map(
    ({ at, text }) => html`<text x="${(at * WIDTH).toFixed(1)}" y="${HEIGHT + 18}" text-anchor="middle">${text}</text>`,
  );
  let x = 0;
  const key = (swatch: Markup, text: string): Markup => {
    const at = x;
    x += 34 + text.length * 7.2;
    return html`<g transform="translate(${at.toFixed(0)} 0)">${swatch}<text x="20" y="0">${text}</text></g>`;
  };
  const keys = [
    key(html`<path stroke="${theme.text}" stroke-width="2" d="M0 -4h14"/>`, "offered"),
    ...layers.map((layer) =>
      key(html`<rect y="-11" width="14" height="12" rx="2" fill="${colour(layer)}"/>`, layer.name),
    ),
  ];
  const words = `Calls a second over ${figure(stage.spanS)} s: offered, ${layers.map(({ name }) => name).join(", ")}; ${bands.map(({ name }) => name).join(", ")} as a band.`;
  return html`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${SIZE.width} ${SIZE.height}" role="img" aria-label="${words}" font-family="system-ui,-apple-system,Segoe UI,Roboto,Helvetica,Arial,sans-serif" font-size="13" fill="${theme.muted}">
<g transform="translate(${LEFT} 20)">${keys}</g><text x="${LEFT - 8}" y="${TOP - 24}" text-anchor="end">calls/s</text>
<g transform="translate(${LEFT} ${TOP})">${scale}${shapes}${faults}<path fill="none" stroke="${theme.text}" stroke-width="1.6" d="${stepPath(stage, offered, y)}"/>${times}</g>
</svg>
`.text;
};

/** `trends.html`: nights as small multiples, what changed first. */
import { median } from "../../history/statistics/statistics.ts";
import { deployedOf, type Figure, gateCommand, type Trends } from "../../trends/changes.ts";
import type { Night } from "../../trends/nights.ts";
import { WIDTH } from "../charts/chart-series.ts";
import { type Chart, dot, figuresOverTime, label, linear } from "../charts/frame.ts";
import { figure } from "../figures.ts";
import { betweenText, changesByNight, changeText, dayOf, isSteady, nightsText } from "../trends-text.ts";
import { card, codes, html, type Markup } from "./markup.ts";
import { pageShell } from "./page-shell.ts";

const HEIGHT = 110;
const DAYS_NAMED = 4;

const nameOf = (night: Night): string => `${dayOf(night)} ${deployedOf(night) ?? night.id}`;

const chartOf = ({ nights }: Trends, one: Figure, id: string): Chart => {
  const { name, values, changes } = one;
  const x = (at: number): number => (at + 0.5) / nights.length;
  const { y, ticks } = linear(
    HEIGHT,
    Math.max(1e-9, ...values.map(({ value, high }) => Math.max(value, high ?? 0))),
    3,
  );
  const up = (value: number): string => y(Math.max(0, value)).toFixed(1);
  const across = (at: number): string => (x(at) * WIDTH).toFixed(1);
  const typical = median(values.filter(({ isCompared }) => isCompared).map(({ value }) => value));
  const steps = changes.map(({ to, after }) => ({
    from: nights.findIndex(({ id: of }) => of === to.id),
    level: after,
  }));
  const levels = [{ from: 0, level: changes[0]?.before ?? typical }, ...steps];
  const lines = levels.map(({ from, level }, i) => {
    const until = (levels[i + 1]?.from ?? nights.length) - 1;
    return level === null ? "" : `M${across(from - 0.4)} ${up(level)}H${across(until + 0.4)}`;
  });
  const intervals = values.map(({ at, low, high }) =>
    low === null || high === null ? "" : `M${across(at)} ${up(high)}V${up(low)}`,
  );
  const dots = values.map(({ at, value, isCompared }) => {
    const night = nights[at] as Trends["nights"][number];
    const why = isCompared ? "" : `, ${night.whyNot ?? "another rate"}`;
    return html`<g><title>${nameOf(night)}: ${figure(value)}${why}</title>${dot(isCompared ? "kind-answered" : "hollow", [x(at), Number(up(value))], 3)}</g>`;
  });
  const names = changes.map((change, i) => {
    const at = x((steps[i]?.from ?? 0) - 0.5);
    return label("band-name", changeText(change), [at, -6], at > 0.75 ? { anchor: "end" } : {});
  });
  const said = changes.map(
    (found) => `${found.worseBy > 1 ? "Worse" : "Better"}: ${changeText(found)} ${betweenText(found)}.`,
  );
  const cells = new Map(values.map(({ at, value }) => [at, figure(value)]));
  const step = Math.max(1, Math.ceil(nights.length / DAYS_NAMED));
  return {
    ...{
      id,
      height: HEIGHT,
      title: name,
      finding: said.join(" ") || (isSteady(one) ? "No change seen." : "Too few nights."),
    },
    description:
      "A dot a night with its 95 % interval, hollow where it is not compared; a line at the median of each level.",
    across: nights.flatMap((night, at) => (at % step === 0 ? [{ at: x(at), text: dayOf(night).slice(5) }] : [])),
    up: ticks,
    drawn: html`<path class="spread" d="${intervals.join("")}"/>`,
    lines: [{ shape: "line", d: lines.join("") }],
    labels: [...dots, ...names],
    table: { head: ["night", name], rows: nights.map((night, at) => [nameOf(night), cells.get(at) ?? null]) },
  };
};

const changedItems = (trends: Trends): Markup[] =>
  changesByNight(trends)
    .flat()
    .map(({ figure: { name }, change }) => {
      const [word, levels] = [change.worseBy > 1 ? "Worse" : "Better", [change.before, change.after].map(figure)];
      const command = gateCommand(change);
      return html`<li><b>${word}</b>: <code>${name}</code> from ${levels.join(" to ")}, ${changeText(change)}, ${betweenText(change)}.${command !== null && codes([command])}</li>`;
    });

/** A page that loads nothing and has no script. */
export const htmlTrends = (trends: Trends): string => {
  const { group, others, nights, figures } = trends;
  const items = changedItems(trends);
  const changed = html`<ul>${items}</ul><p>Nights differ by what the machine did, too: the gate between both commits is the proof.</p>`;
  const failed = nights.filter(({ failed: ids }) => ids.length > 0);
  const lines = failed.map((night) => `${nameOf(night)}: ${night.failed.join(", ")}`);
  const sorted = [
    ...figures.filter((one) => one.changes.length > 0),
    ...figures.filter((one) => one.changes.length === 0),
  ];
  const charts = figuresOverTime(sorted.map((one, i) => chartOf(trends, one, `f${i}`)));
  const body = html`<header><p class="brand">Floodgate</p><p class="muted">night after night</p></header>
<section class="card"><h2>${group}</h2><p>${nightsText(trends)}</p>${others.length > 0 && html`<p class="small muted">Nights of another kind are not compared: ${others.join(", ")}.</p>`}</section>
${card("changed", "What changed", items.length === 0 ? html`<p>${figures.some(isSteady) ? "No change seen." : "Too few nights."}</p>` : changed)}
${lines.length > 0 && card("failed", "Claims that failed", codes(lines))}
${card("figures", "Figures", html`<div class="beside">${charts}</div>`)}`;
  return pageShell(`Nights of ${group}`, body, false);
};

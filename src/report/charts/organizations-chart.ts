/** What share of its own calls each organization got answered, with the interval that so few calls allow. */
import { sumOf } from "../../history/series.ts";
import { fairnessIndex, wilsonInterval } from "../../history/statistics/statistics.ts";
import { count, counted, figure, share } from "../figures.ts";
import { html } from "../page/markup.ts";
import type { ChartSeries } from "./chart-series.ts";
import { type Chart, dot, inFrame, percent, spread, type Tick, WIDTH } from "./frame.ts";

const ROW = 20;
const ROWS_MOST = 24;
const NAME_MOST = 15;

type Row = { org: string; offered: number; answered: number; shed: number };

const rowsOf = ({ series }: ChartSeries): Row[] =>
  Object.entries(series.by_organization)
    .filter(([org]) => org !== "-")
    .map(([org, { offered, answered, shed }]) => ({
      org,
      offered: sumOf(offered),
      answered: sumOf(answered),
      shed: sumOf(shed),
    }))
    .sort((a, b) => a.answered / a.offered - b.answered / b.offered || b.offered - a.offered);

const shorter = (name: string): string => (name.length > NAME_MOST ? `${name.slice(0, NAME_MOST - 1)}…` : name);

const findingOf = (rows: readonly Row[]): string => {
  const [worst, best] = [rows[0] as Row, rows.at(-1) as Row];
  const jain = fairnessIndex(rows.map(({ answered, offered }) => ({ offered, served: answered })));
  const index = jain === null ? "" : ` (Jain's index of the shares ${figure(jain)})`;
  const [low, high] = [worst, best].map(({ answered, offered }) => share(answered, offered));
  if (low === high)
    return `All ${counted(rows.length, "organization")} were answered alike: ${low} of their calls${index}.`;
  const heaviest = rows.reduce((most, row) => (row.offered > most.offered ? row : most));
  const isNoisy =
    heaviest === worst &&
    rows.length > 2 &&
    heaviest.offered > (3 * sumOf(rows.map(({ offered }) => offered))) / rows.length;
  const least = Math.min(...rows.slice(1).map(({ answered, offered }) => answered / offered));
  const others = least === 1 ? "all of theirs" : `at least ${share(least, 1)} of theirs`;
  return isNoisy
    ? `${worst.org} offered most and had ${low} of its calls answered, the others ${others}${index}.`
    : `Between ${low} (${worst.org}) and ${high} (${best.org}) of an organization's own calls were answered${index}.`;
};

/** `null` where there are fewer than two organizations. */
export const organizationsChart = (stage: ChartSeries, id: string): Chart | null => {
  const rows = rowsOf(stage);
  if (rows.length < 2) return null;
  const shown = rows.length > ROWS_MOST ? [...rows.slice(0, ROWS_MOST / 2), ...rows.slice(-ROWS_MOST / 2)] : rows;
  const height = shown.length * ROW;
  const up: Tick[] = shown.map(({ org }, i) => ({ at: (i + 0.5) / shown.length, text: shorter(org) }));
  const dots = shown.map(({ org, answered, offered }, i) => {
    const y = inFrame((i + 0.5) * ROW);
    const interval = wilsonInterval(answered, offered);
    const line = interval && spread("spread", [percent(interval.low), percent(interval.high)], [y, y]);
    return html`<g><title>${org}: ${count(answered)} of ${count(offered)}</title>${line}${dot("kind-answered", percent(answered / offered), y)}</g>`;
  });
  const half =
    rows.length > ROWS_MOST
      ? ` Of ${rows.length} organizations the ${ROWS_MOST / 2} least and the ${ROWS_MOST / 2} most answered are drawn; the table has all that the series keeps.`
      : "";
  return {
    id,
    height,
    isNamed: true,
    title: "By organization.",
    finding: `${findingOf(rows)}${half}`,
    description: `A row for each organization, the least answered first: a dot at the share of its calls that were answered, and a line for the 95 % interval (Wilson).`,
    across: [0, 0.25, 0.5, 0.75, 1].map((at) => ({ at, text: `${at * 100} %` })),
    acrossName: "of its own calls answered",
    up,
    drawn: html`${[0.25, 0.5, 0.75, 1].map((at) => html`<path class="grid" stroke="#8884" d="M${at * WIDTH} 0V${height}"/>`)}`,
    labels: html`${dots}`,
    table: {
      head: ["organization", "offered", "answered", "shed", "share answered"],
      rows: rows.map(({ org, offered, answered, shed }) => [org, offered, answered, shed, share(answered, offered)]),
    },
  };
};

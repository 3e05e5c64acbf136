/** What share of its own calls each organization got answered, with the interval that so few calls allow. */
import { sumOf } from "../../history/series.ts";
import { fairnessIndex, wilsonInterval } from "../../history/statistics/statistics.ts";
import { clip } from "../escape.ts";
import { count, counted, figure, share } from "../figures.ts";
import { html } from "../page/markup.ts";
import type { ChartSeries } from "./chart-series.ts";
import { type Chart, dot, inFrame, percent, spread, WIDTH } from "./frame.ts";

const ROW = 20;
const ROWS_MOST = 24;
const NAME_MOST = 15;

/** The least answered first. */
const rowsOf = ({ series }: ChartSeries) =>
  Object.entries(series.by_organization)
    .filter(([org]) => org !== "-")
    .map(([org, { offered, answered, shed }]) => {
      const of = sumOf(offered);
      return { org, offered: of, served: sumOf(answered), shed: sumOf(shed), share: sumOf(answered) / of };
    })
    .sort((a, b) => a.share - b.share || b.offered - a.offered);

type Row = ReturnType<typeof rowsOf>[number];

const findingOf = (rows: readonly Row[]): string => {
  const [worst, best] = [rows[0] as Row, rows.at(-1) as Row];
  const jain = fairnessIndex(rows);
  const index = jain === null ? "" : ` (Jain's index of the shares ${figure(jain)})`;
  const [low, high] = [worst, best].map(({ served, offered }) => share(served, offered));
  if (low === high)
    return `All ${counted(rows.length, "organization")} were answered alike: ${low} of their calls${index}.`;
  const all = rows.map(({ offered }) => offered);
  const isNoisy =
    rows.length > 2 && worst.offered === Math.max(...all) && worst.offered > (3 * sumOf(all)) / rows.length;
  const least = (rows[1] as Row).share;
  const others = least === 1 ? "all of theirs" : `at least ${share(least, 1)} of theirs`;
  return isNoisy
    ? `${worst.org} offered most and had ${low} of its calls answered, the others ${others}${index}.`
    : `Between ${low} (${worst.org}) and ${high} (${best.org}) of an organization's own calls were answered${index}.`;
};

/** `null` where there are fewer than two organizations. */
export const organizationsChart = (stage: ChartSeries, id: string): Chart | null => {
  const rows = rowsOf(stage);
  if (rows.length < 2) return null;
  const half = ROWS_MOST / 2;
  const isCut = rows.length > ROWS_MOST;
  const shown = isCut ? [...rows.slice(0, half), ...rows.slice(-half)] : rows;
  const left = ` Of ${rows.length} organizations the ${half} least and the ${half} most answered are drawn; the table has all that the series keeps.`;
  const dots = shown.map(({ org, served, offered, share: of }, i) => {
    const y = inFrame((i + 0.5) * ROW);
    const interval = wilsonInterval(served, offered);
    const line = interval && spread("spread", [percent(interval.low), percent(interval.high)], [y, y]);
    return html`<g><title>${org}: ${count(served)} of ${count(offered)}</title>${line}${dot("kind-answered", percent(of), y)}</g>`;
  });
  const height = shown.length * ROW;
  const grid = [0.25, 0.5, 0.75, 1].map(
    (at) => html`<path class="grid" stroke="#8884" d="M${at * WIDTH} 0V${height}"/>`,
  );
  return {
    id,
    height,
    isNamed: true,
    title: "By organization.",
    finding: `${findingOf(rows)}${isCut ? left : ""}`,
    description: `A row for each organization, the least answered first: a dot at the share of its calls that were answered, and a line for the 95 % interval (Wilson).`,
    across: [0, 0.25, 0.5, 0.75, 1].map((at) => ({ at, text: `${at * 100} %` })),
    acrossName: "of its own calls answered",
    up: shown.map(({ org }, i) => ({ at: (i + 0.5) / shown.length, text: clip(org, NAME_MOST) })),
    drawn: html`${grid}`,
    labels: html`${dots}`,
    table: {
      head: ["organization", "offered", "answered", "shed", "share answered"],
      rows: rows.map(({ org, offered, served, shed }) => [org, offered, served, shed, share(served, offered)]),
    },
  };
};

/** `compared.html`: two runs laid over each other, stage by stage. It shows; only the gate decides. */
import type { Measurement, RunDocument } from "../../history/run-document.ts";
import { type Series, sumOf } from "../../history/series.ts";
import { chartSeriesOf, type Detail } from "../charts/chart-series.ts";
import { chartsBlock, isDrawn } from "../charts/charts-section.ts";
import { chartFigure } from "../charts/frame.ts";
import { overlayCharts, type Sides, sharedAxis } from "../charts/overlay-charts.ts";
import { figure, intervalText, moment, valueText } from "../figures.ts";
import { badge } from "./html-claims.ts";
import { card, html, type Markup, table } from "./markup.ts";
import { pageShell } from "./page-shell.ts";

export type Recorded = { document: RunDocument; series: Series };

const DETAIL: Detail = { binsMost: 80, rowsMost: 40, folded: "all" };
const OPEN_MOST = 3;

const runRow = (name: string, { document: run }: Recorded): Markup =>
  html`<tr><td><b>${name}</b></td><td><code>${run.id}</code></td><td>${run.profile} on ${run.target.name}, seed ${run.seed}</td><td>${moment(run.started_at)}</td><td>${run.commit ?? "unknown"}</td><td>${badge(run.verdict)}</td></tr>`;

/** Whether the intervals leave room for no difference at all. */
const apartText = (a: Measurement, b: Measurement): string => {
  if (a.low === null || a.high === null || b.low === null || b.high === null) return "no intervals";
  return a.low > b.high || b.low > a.high ? "intervals apart" : "intervals overlap";
};

const measurementRow = (a: Measurement, b: Measurement): Markup => {
  const change = a.value === 0 ? "–" : `${b.value >= a.value ? "+" : ""}${figure((b.value / a.value - 1) * 100)} %`;
  const withInterval = (m: Measurement): Markup =>
    html`${valueText(m)}<div class="small muted">${intervalText(m) ?? ""}</div>`;
  return html`<tr><td><code>${a.name}</code></td><td class="number">${withInterval(a)}</td><td class="number">${withInterval(b)}</td><td class="number">${change}</td><td>${apartText(a, b)}</td></tr>`;
};

const measurements = (stage: string, a: RunDocument, b: RunDocument): Markup | null => {
  const rows = a.measurements.flatMap((one) => {
    const other = b.measurements.find(({ name, stage: of }) => name === one.name && of === stage);
    return one.stage === stage && other !== undefined ? [measurementRow(one, other)] : [];
  });
  const heads = ["Measurement", ...["earlier", "later", "change"].map((number) => ({ number })), ""];
  return rows.length === 0 ? null : html`<div class="scroll">${table("", heads, rows)}</div>`;
};

const stageBlock = (stage: string, a: Recorded, b: Recorded, id: string, isOpen: boolean): Markup | null => {
  const [one, other] = [a, b].map(({ series }) => series.stages.find((of) => of.stage === stage));
  if (one === undefined || other === undefined) return null;
  const sides: Sides = [
    { name: "earlier", stage: chartSeriesOf(one, DETAIL) },
    { name: "later", stage: chartSeriesOf(other, DETAIL) },
  ];
  const { overTime, others } = overlayCharts(sides, id);
  const about = { id, name: stage, calls: sumOf(one.offered) + sumOf(other.offered), isOpen };
  const after = html`${others.map((chart) => chartFigure(chart))}${measurements(stage, a.document, b.document)}`;
  return chartsBlock(about, sharedAxis(sides), overTime, [null, after]);
};

export const htmlOverlay = (a: Recorded, b: Recorded): string => {
  const drawn = a.series.stages.filter(isDrawn(a.document.stages)).map(({ stage }) => stage);
  const shared = drawn.filter((stage) => b.series.stages.some((one) => one.stage === stage));
  const blocks = shared.map((stage, i) => stageBlock(stage, a, b, `c${i}`, shared.length <= OPEN_MOST));
  const names = new Set([...a.series.stages, ...b.series.stages].map(({ stage }) => stage));
  const alone = [...names].filter((stage) => !shared.includes(stage));
  const left = html`<p class="small muted">In one run only, or too small to draw: ${alone.join(", ")}.</p>`;
  const body = html`<header><p class="brand">Floodgate</p><p class="muted">two runs, compared</p></header>
<section class="card"><h2>Two runs</h2><div class="scroll"><table><tbody>${runRow("earlier", a)}${runRow("later", b)}</tbody></table></div>
<p>Two runs at two times differ by what the machine did meanwhile, too. This page shows how they went; whether something got worse is decided by <code>floodgate gate</code>.</p></section>
${card("courses", "Over time", blocks.length === 0 ? html`<p>No stage is in both runs.</p>` : blocks, alone.length === 0 ? null : left)}`;
  return pageShell(`${a.document.id} and ${b.document.id}`, body, true);
};

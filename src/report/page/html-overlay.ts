/**
 * `compared.html`: two runs laid over each other, stage by stage on the same axes, the earlier one dashed, the later
 * one solid. It gives no verdict; only the gate does.
 */
import type { Measurement, RunDocument } from "../../history/run-document.ts";
import { mergeSparse, quantileMs, type Series } from "../../history/series.ts";
import { sumOf } from "../../history/statistics/statistics.ts";
import { type ChartSeries, chartSeriesOf, type Detail, rowTimes, type Values } from "../charts/chart-series.ts";
import { percentilePlot, quantileCell, quantileIfEnough, quantileOverTime } from "../charts/durations.ts";
import { type Cell, type Chart, chartFigure, linear, logarithmic, overTime, type Scale } from "../charts/frame.ts";
import { countsOf } from "../charts/layers.ts";
import { count, figure, intervalText, milliseconds, moment, share, valueText } from "../figures.ts";
import { chartsBlock, isDrawn } from "./html.ts";
import { badge } from "./html-claims.ts";
import { card, html, type Markup, table } from "./markup.ts";
import { pageShell } from "./page-shell.ts";

export type Recorded = { document: RunDocument; series: Series };

const DETAIL: Detail = { binsMost: 80, rowsMost: 40, folded: "all" };
const OPEN_MOST = 3;
const SHAPES = { earlier: "line gauges", later: "line callers" } as const;
const HEIGHT = 150;

export type Side = { name: keyof typeof SHAPES; stage: ChartSeries };

/** The longest axis, on which all sides fit, without the faults of a single side. */
const sharedAxis = (sides: readonly Side[]): ChartSeries => {
  const [longest] = sides.map(({ stage }) => stage).sort((a, b) => b.spanS - a.spanS) as [ChartSeries];
  return { ...longest, bands: [], marks: [] };
};

/** A line and a column for each side; a line ends where its run does. `cell` makes a cell of the values in a row. */
const overBoth = <T>(
  sides: readonly Side[],
  about: Pick<Chart, "id" | "title" | "finding" | "description" | "unit"> & { scale: Scale },
  valuesOf: (stage: ChartSeries) => Values,
  [column, bins, cell]: readonly [name: string, bins: (stage: ChartSeries) => readonly T[], cell: (row: T[]) => Cell],
): Chart => {
  const axis = sharedAxis(sides);
  return overTime(axis, {
    ...about,
    lines: sides.map(({ name, stage }) => {
      return { text: name, shape: SHAPES[name], values: valuesOf(stage), of: { ...stage, spanS: axis.spanS } };
    }),
    columns: sides.map(({ name, stage }) => {
      // The bins of two sides may differ in width.
      const rowOf = (bin: number): number => Math.floor((bin * stage.binS + 1e-6) / (axis.binS * axis.binsInRow));
      const rows = Map.groupBy(bins(stage).entries(), ([bin]) => rowOf(bin));
      return [`${column} in ${name}`, rowTimes(axis).map((_, row) => cell(rows.get(row)?.map(([, one]) => one) ?? []))];
    }),
  });
};

const answeredIn = ({ series }: ChartSeries): number[] => countsOf(series, "answered");
const answeredPerS = (stage: ChartSeries): number[] => answeredIn(stage).map((n) => n / stage.binS);
const mediansIn = ({ series }: ChartSeries): (number | null)[] => quantileOverTime(series.latency, 0.5);

export const answeredChart = (sides: readonly Side[], id: string): Chart => {
  const said = sides.map(({ name, stage }) => {
    const offered = sumOf(stage.series.offered);
    return `the ${name} run answered ${share(sumOf(answeredIn(stage)), offered)} of ${count(offered)} calls`;
  });
  const about = {
    id,
    title: "Answered.",
    finding: `${said.join("; ").replace(/^t/, "T")}.`,
    description: "Answered calls a second by the moment at which they were due, a line for each run.",
    unit: "calls/s",
    scale: linear(HEIGHT, Math.max(1, ...sides.flatMap(({ stage }) => answeredPerS(stage))), 4),
  };
  return overBoth(sides, about, answeredPerS, ["answered", answeredIn, sumOf]);
};

const medianChart = (sides: readonly Side[], id: string): Chart | null => {
  const all = sides.flatMap(({ stage }) => mediansIn(stage)).filter((ms) => ms !== null);
  if (all.length === 0) return null;
  const said = sides.map(({ name, stage }) => {
    const p50 = quantileMs(mergeSparse(stage.series.latency), 0.5);
    return p50 === null ? `${name}: no answers` : `${name} ${milliseconds(p50)}`;
  });
  const about = {
    id,
    title: "Median latency.",
    finding: `Over the whole stage: ${said.join(", ")}.`,
    description: "The median of whole answers from the moment a call was due, a line for each run, logarithmic.",
    scale: logarithmic(HEIGHT, Math.min(...all) * 0.9, Math.max(...all) * 1.1),
  };
  const bins = ({ series }: ChartSeries) => series.latency;
  return overBoth(sides, about, mediansIn, ["p50", bins, (row) => quantileCell(mergeSparse(row), 0.5)]);
};

const percentiles = (sides: readonly Side[], id: string): Chart | null => {
  const curves = sides.map(({ name, stage }) => {
    return { name, buckets: mergeSparse(stage.fine.latency), shape: SHAPES[name] };
  });
  const p = [0.999, 0.99, 0.9, 0.5].find((one) => curves.every(({ buckets }) => quantileIfEnough(buckets, one)));
  const said = curves.map(({ name, buckets }) => `${name} ${milliseconds(quantileMs(buckets, p ?? 0.5) ?? 0)}`);
  const finding =
    p === undefined ? "Too few answers to compare." : `p${Number((p * 100).toFixed(1))}: ${said.join(", ")}.`;
  return percentilePlot({ id, finding }, curves.reverse(), []);
};

const runRow = (name: string, { document: run }: Recorded): Markup =>
  html`<tr><td><b>${name}</b></td><td><code>${run.id}</code></td><td>${run.profile} on ${run.target.name}, seed ${run.seed}</td><td>${moment(run.started_at)}</td><td>${run.commit ?? "unknown"}</td><td>${badge(run.verdict)}</td></tr>`;

const apartText = (a: Measurement, b: Measurement): string => {
  if (a.low === null || a.high === null || b.low === null || b.high === null) return "no intervals";
  return a.low > b.high || b.low > a.high ? "intervals apart" : "intervals overlap";
};

const measurementRow = (a: Measurement, b: Measurement): Markup => {
  const change = a.value === 0 ? "–" : `${b.value >= a.value ? "+" : ""}${figure((b.value / a.value - 1) * 100)} %`;
  const withInterval = (m: Measurement) => html`${valueText(m)}<div class="small muted">${intervalText(m) ?? ""}</div>`;
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

const stageBlock = (stage: string, a: Recorded, b: Recorded, id: string, isOpen: boolean): Markup => {
  const sideOf = (name: Side["name"], { series }: Recorded): Side[] =>
    series.stages.filter((one) => one.stage === stage).map((one) => ({ name, stage: chartSeriesOf(one, DETAIL) }));
  const sides = [...sideOf("earlier", a), ...sideOf("later", b)];
  const charts = [answeredChart(sides, `${id}-answered`), medianChart(sides, `${id}-median`)];
  const plot = percentiles(sides, `${id}-percentiles`);
  const calls = sumOf(sides.flatMap((side) => side.stage.series.offered));
  const after = html`${plot && chartFigure(plot)}${measurements(stage, a.document, b.document)}`;
  const overTime = charts.filter((chart) => chart !== null);
  return chartsBlock({ id, name: stage, calls, isOpen, after }, sharedAxis(sides), overTime);
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

/** The stages of the page: outcomes of calls as a bar and a table that share letters; and the faults in time. */
import type { FaultRecord, RunDocument, StageSummary } from "../../history/run-document.ts";
import { sumOf } from "../../history/statistics/statistics.ts";
import { driverText, fillOf, OUTCOME_KINDS, type OutcomeRow, outcomeRows, swatch } from "../charts/layers.ts";
import { count, counted, duration, share } from "../figures.ts";
import { statesMet } from "../run-facts.ts";
import { defined } from "./definitions.ts";
import { card, folded, html, type Markup, table } from "./markup.ts";

const legend = (): Markup => {
  const items = Object.entries(OUTCOME_KINDS).map(([kind, { label, meaning }]) => {
    return html`<li>${swatch(`fill ${kind}`)} <span><b>${defined(`kind-${kind}`, label)}</b> <span class="muted">${meaning}</span></span></li>`;
  });
  return html`<ul class="legend">${items}</ul>`;
};

const percent = (part: number, whole = 100): string => `${((100 * part) / whole).toFixed(3)}%`;

/** Segments of a bar are at least this many per cent wide: two calls of a thousand must not vanish. */
const LEAST = 0.8;
/** A letter fits on a narrow screen from this width on, in per cent. */
const LETTER_FROM = 4;
const BAR_HEIGHT = 34;

const outcomeBar = (rows: readonly OutcomeRow[], label: string): Markup => {
  const shown = rows.filter(({ n }) => n > 0);
  const total = sumOf(shown.map(({ n }) => n));
  const wanted = shown.map(({ n }) => Math.max(LEAST, (100 * n) / total));
  const scale = 100 / sumOf(wanted);
  let x = 0;
  const segments = shown.map(({ key, outcome, kind, n }, i) => {
    const width = (wanted[i] as number) * scale;
    const at = x;
    x += width;
    const isWide = width >= LETTER_FROM * Math.max(1, key.length * 0.8);
    const letter = html`<text class="on-${kind}" x="${percent(at + width / 2)}" y="${BAR_HEIGHT / 2 + 5}" text-anchor="middle">${key}</text>`;
    const gap = html`<rect class="gap" x="${percent(at)}" width="2" height="${BAR_HEIGHT}"/>`;
    const title = `${key}: ${outcome}, ${count(n)} calls, ${share(n, total)}`;
    return html`<g><title>${title}</title><rect ${fillOf(kind)} x="${percent(at)}" width="${percent(width)}" height="${BAR_HEIGHT}"/>${i > 0 && gap}${isWide && letter}</g>`;
  });
  const note = html`<p class="small muted">The thinnest segments are drawn wider than their share.</p>`;
  return html`<svg class="bar" width="100%" height="${BAR_HEIGHT}" role="img" aria-label="${label}">${segments}</svg>${shown.some(({ n }) => (100 * n) / total < LEAST) && note}`;
};

/** An outcome that may break after an underscore: subcodes are long and phones narrow. */
const code = (outcome: string): Markup =>
  html`<code>${outcome.split(/(?<=_)/).map((part, i) => html`${i > 0 && html`<wbr>`}${part}`)}</code>`;

/** This many of the largest outcomes of a stage are shown; the others are folded. */
const ROWS_OPEN = 10;

const stage = (summary: StageSummary): Markup => {
  const { calls } = summary;
  const rows = outcomeRows(summary);
  const head = html`<h3>${summary.name}</h3><p class="muted">${driverText(summary)}, ${duration(summary.duration_ms)}, ${counted(calls.sent, "call")}: ${count(calls.answered)} answered, ${count(calls.refused)} refused, ${count(calls.indeterminate)} indeterminate</p>`;
  if (rows.length === 0) return html`<div class="stage">${head}<p>No call was sent.</p></div>`;
  const words = rows.map((r) => `${r.outcome} ${share(r.n, calls.sent)}`).join(", ");
  const line = (r: OutcomeRow): Markup =>
    html`<tr><td><b>${r.key}</b> ${swatch(`fill ${r.kind}`)}</td><td>${code(r.outcome)}${r.kind !== r.outcome && html`<div class="small muted">${OUTCOME_KINDS[r.kind].label}</div>`}</td><td class="number">${count(r.n)}</td><td class="number">${share(r.n, calls.sent)}</td></tr>`;
  const heads = ["Key", "Outcome", { number: defined("calls", "Calls") }, { number: defined("share", "Share") }];
  const largest = new Set([...rows].sort((a, b) => b.n - a.n).slice(0, ROWS_OPEN));
  const rest = rows.filter((row) => !largest.has(row));
  const open = table("narrow", heads, rows.filter((row) => largest.has(row)).map(line));
  const smaller = folded(counted(rest.length, "smaller outcome"), table("narrow", heads, rest.map(line)));
  return html`<div class="stage">${head}${outcomeBar(rows, `Outcomes of ${summary.name}: ${words}`)}${open}${rest.length > 0 && smaller}</div>`;
};

export const stagesSection = ({ stages }: RunDocument): Markup => {
  const all = html`<p>Every call is counted once. Letters join a bar to the rows of its table.</p>${legend()}<div class="stages">${stages.map(stage)}</div>`;
  return card("stages", "Stages", stages.length === 0 ? html`<p>No stage sent calls.</p>` : all);
};

const TRACK = 20;
const TICKS = ["start", "middle", "end"] as const;
/** A fault that was injected more often than this has its times counted, not listed. */
const LISTED_MAX = 3;

const moment = (ms: number): string => (ms === 0 ? "0 s" : duration(ms));
const when = (fault: FaultRecord): string => `${moment(fault.started_ms)} to ${moment(fault.ended_ms)}`;

const faultBar = (fault: FaultRecord, spanMs: number): Markup => {
  const width = percent(Math.max(fault.ended_ms - fault.started_ms, spanMs / 200), spanMs);
  const kind = fault.took_effect ? "fault" : "fault-without-effect";
  return html`<rect class="${kind}" x="${percent(fault.started_ms, spanMs)}" y="4" width="${width}" height="${TRACK - 8}" rx="2"><title>${when(fault)}${!fault.took_effect && ", no effect"}</title></rect>`;
};

const track = (faults: readonly FaultRecord[], spanMs: number): Markup => {
  const { experiment, link, fault, stream } = faults[0] as FaultRecord;
  const without = faults.filter((f) => !f.took_effect).length;
  const times = faults.length > LISTED_MAX ? `${faults.length} times` : faults.map(when).join("; ");
  const some = without === faults.length ? "✖ no effect" : `✖ no effect ${without} of ${faults.length} times`;
  const effect = without === 0 ? html`, took effect` : html`, <b class="warn">${some}</b>`;
  const label = `${experiment} on ${link}: ${times}${without === 0 ? "" : `, ${some}`}`;
  return html`<li><div class="fault-name"><b>${experiment}</b> <span class="muted">${fault} on ${link} (${stream}), ${times}${effect}</span></div>
<svg class="track" width="100%" height="${TRACK}" role="img" aria-label="${label}"><rect class="rail" x="0" y="${TRACK / 2 - 1}" width="100%" height="2"/>${faults.map((f) => faultBar(f, spanMs))}</svg></li>`;
};

/** Faults of one kind share a track (a flapping link is one row, not fifty). Times count from the start of the run. */
const faultTimeline = (faults: readonly FaultRecord[], runMs: number): Markup => {
  const spanMs = Math.max(runMs, 1, ...faults.map((f) => f.ended_ms));
  const tracks = Map.groupBy(faults, (f) => JSON.stringify([f.experiment, f.link, f.fault, f.stream]));
  const marks = TICKS.map((anchor, i) => {
    return html`<text x="${i * 50}%" y="14" text-anchor="${anchor}">${moment((i / 2) * spanMs)}</text>`;
  });
  return html`<ul class="timeline">${[...tracks.values()].map((list) => track(list, spanMs))}</ul><svg class="axis" width="100%" height="18" aria-hidden="true">${marks}</svg>`;
};

/** What the faults met. A bold cell is a state without which the experiment proves nothing. */
const metTable = (run: RunDocument): Markup | null => {
  const met = statesMet(run);
  if (met === null) return null;
  const isBare = ({ cells }: (typeof met.rows)[number]): boolean =>
    cells.every(({ text, must }) => !must && (text === "0" || text === "–"));
  const [bare, others] = [met.rows.filter(isBare), met.rows.filter((row) => !isBare(row))];
  const rows = others.map(({ stage: name, cells }) => {
    const shown = cells.map(({ text, must, missed }) => {
      const what = missed ? html`<b class="warn">✖ never</b>` : must ? html`<b>${text}</b>` : text !== "0" && text;
      return html`<td class="number">${what}</td>`;
    });
    return html`<tr><td>${name}</td>${shown}</tr>`;
  });
  const names = bare.map(({ stage: name }) => name).join(", ");
  const nothing = html`<p>${others.length === 0 ? "They" : "The others"} met nothing but ordinary calls: ${names}.</p>`;
  const heads = ["Experiment", ...met.heads.map((number) => ({ number }))];
  return html`<h3>What the faults met</h3><p>How often, while each fault was in; blank is never. What an experiment has to meet is bold: without it, it proves nothing.</p>${others.length > 0 && table("met", heads, rows)}${bare.length > 0 && nothing}`;
};

export const faultsSection = (run: RunDocument): Markup => {
  const without = run.faults.filter((f) => !f.took_effect).length;
  const note = html`<p class="warn">✖ ${counted(without, "fault")} took no effect: what was judged under ${without === 1 ? "it" : "them"} proves nothing.</p>`;
  const all = html`<p>When each fault was in force, counted from the start of the run. A filled bar took effect; a dashed frame did not.</p>${without > 0 && note}${faultTimeline(run.faults, run.duration_ms)}${metTable(run)}`;
  return card("faults", "Faults", run.faults.length === 0 ? html`<p>No fault was injected.</p>` : all);
};

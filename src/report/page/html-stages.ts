/** The stages of the page: what came of every call, as a bar and as a table that share letters; and the faults in time. */
import type { RunDocument, StageSummary } from "../../history/run-document.ts";
import { count, counted, duration, share } from "../figures.ts";
import { driverText, OUTCOME_KINDS, type OutcomeKind, type OutcomeRow, outcomeRows } from "../outcome-kinds.ts";
import { type StatesMet, statesMet } from "../states-met.ts";
import { defined } from "./definitions.ts";
import { faultTimeline } from "./fault-timeline.ts";
import { html, type Markup } from "./markup.ts";
import { outcomeBar, swatch } from "./outcome-bar.ts";

const legend = (): Markup => {
  const items = (Object.keys(OUTCOME_KINDS) as OutcomeKind[]).map(
    (kind) =>
      html`<li>${swatch(kind)} <span><b>${defined(`kind-${kind}`, OUTCOME_KINDS[kind].label)}</b> <span class="muted">${OUTCOME_KINDS[kind].meaning}</span></span></li>`,
  );
  return html`<ul class="legend">${items}</ul>`;
};

/** May break after an underscore: subcodes are long and phones narrow. */
const code = (outcome: string): Markup =>
  html`<code>${outcome.split(/(?<=_)/).map((part, i) => (i === 0 ? part : html`<wbr>${part}`))}</code>`;

/** The largest outcomes of a stage; the others are folded. */
const ROWS_OPEN = 10;
const HEADS = html`<thead><tr><th>Key</th><th>Outcome</th><th class="number">${defined("calls", "Calls")}</th><th class="number">${defined("share", "Share")}</th></tr></thead>`;

const stage = (summary: StageSummary): Markup => {
  const { calls } = summary;
  const rows = outcomeRows(summary);
  const head = html`<h3>${summary.name}</h3><p class="muted">${driverText(summary)}, ${duration(summary.duration_ms)}, ${counted(calls.sent, "call")}: ${count(calls.answered)} answered, ${count(calls.refused)} refused, ${count(calls.indeterminate)} indeterminate</p>`;
  if (rows.length === 0) return html`<div class="stage">${head}<p>No call was sent.</p></div>`;
  const words = rows.map((r) => `${r.outcome} ${share(r.n, calls.sent)}`).join(", ");
  const bar = outcomeBar(rows, `Outcomes of ${summary.name}: ${words}`);
  const note = bar.widened
    ? html`<p class="small muted">The thinnest segments are drawn wider than their share.</p>`
    : null;
  const line = (r: OutcomeRow): Markup =>
    html`<tr><td><b>${r.key}</b> ${swatch(r.kind)}</td><td>${code(r.outcome)}${r.kind === r.outcome ? null : html`<div class="small muted">${OUTCOME_KINDS[r.kind].label}</div>`}</td><td class="number">${count(r.n)}</td><td class="number">${share(r.n, calls.sent)}</td></tr>`;
  const largest = new Set([...rows].sort((a, b) => b.n - a.n).slice(0, ROWS_OPEN));
  const rest = rows.filter((row) => !largest.has(row));
  const table = (shown: readonly OutcomeRow[]): Markup =>
    html`<table class="narrow">${HEADS}<tbody>${shown.map(line)}</tbody></table>`;
  const more =
    rest.length === 0
      ? null
      : html`<details><summary>${counted(rest.length, "smaller outcome")}</summary>${table(rest)}</details>`;
  return html`<div class="stage">${head}${bar.svg}${note}${table(rows.filter((row) => largest.has(row)))}${more}</div>`;
};

export const stagesSection = (run: RunDocument): Markup => {
  const body =
    run.stages.length === 0
      ? html`<p>No stage sent calls.</p>`
      : html`<p>Every call is counted once. Letters join a bar to the rows of its table.</p>${legend()}<div class="stages">${run.stages.map(stage)}</div>`;
  return html`<section class="card" id="stages"><h2>Stages</h2>${body}</section>`;
};

/** Bold: the experiment proves nothing without it. */
const metTable = (run: RunDocument): Markup | null => {
  const met = statesMet(run);
  if (met === null) return null;
  const isBare = ({ cells }: StatesMet["rows"][number]): boolean =>
    cells.every(({ text, must }) => !must && (text === "0" || text === "–"));
  const [bare, others] = [met.rows.filter(isBare), met.rows.filter((row) => !isBare(row))];
  const heads = met.heads.map((text) => html`<th class="number">${text}</th>`);
  const rows = others.map(({ stage: name, cells }) => {
    const shown = cells.map(({ text, must, missed }) => {
      const what = missed ? html`<b class="warn">✖ never</b>` : must ? html`<b>${text}</b>` : text === "0" ? "" : text;
      return html`<td class="number">${what}</td>`;
    });
    return html`<tr><td>${name}</td>${shown}</tr>`;
  });
  const table =
    others.length === 0
      ? null
      : html`<table class="met"><thead><tr><th>Experiment</th>${heads}</tr></thead><tbody>${rows}</tbody></table>`;
  const nothing =
    bare.length === 0
      ? null
      : html`<p>${others.length === 0 ? "They" : "The others"} met nothing but ordinary calls: ${bare.map(({ stage: name }) => name).join(", ")}.</p>`;
  return html`<h3>What the faults met</h3><p>How often, while each fault was in; blank is never. What an experiment has to meet is bold: without it, it proves nothing.</p>${table}${nothing}`;
};

export const faultsSection = (run: RunDocument): Markup => {
  const without = run.faults.filter((f) => !f.took_effect).length;
  const note =
    without === 0
      ? null
      : html`<p class="warn">✖ ${counted(without, "fault")} took no effect: what was judged under ${without === 1 ? "it" : "them"} proves nothing.</p>`;
  const body =
    run.faults.length === 0
      ? html`<p>No fault was injected.</p>`
      : html`<p>When each fault was in force, counted from the start of the run. A filled bar took effect; a dashed frame did not.</p>${note}${faultTimeline(run.faults, run.duration_ms)}${metTable(run)}`;
  return html`<section class="card" id="faults"><h2>Faults</h2>${body}</section>`;
};

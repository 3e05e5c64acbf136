/** The rest of the page: what is not judged and why, measurements, calibration, and the machine it ran on. */
import type { Measurement, RunDocument } from "../../history/run-document.ts";
import { calibrationText } from "../calibration-text.ts";
import { count, counted, figure, intervalText, moment, valueText, whyNoInterval, withUnit } from "../figures.ts";
import { notJudged, type ReasonGroup } from "../not-judged.ts";
import { spendingText } from "../spending.ts";
import { defined, definedMeasurement } from "./definitions.ts";
import { badge } from "./html-claims.ts";
import { html, type Markup } from "./markup.ts";

const groups = (id: string, title: string, list: readonly ReasonGroup[]): Markup | null => {
  if (list.length === 0) return null;
  const items = list.map(({ reason, ids }) => {
    const names = html`<ul class="ids">${ids.map((id) => html`<li><code>${id}</code></li>`)}</ul>`;
    return html`<li><b>${counted(ids.length, "claim")}:</b> ${reason}<details><summary>which</summary>${names}</details></li>`;
  });
  return html`<h3 id="${id}">${title}</h3><ul>${items}</ul>`;
};

export const notJudgedSection = (run: RunDocument): Markup => {
  const { skipped, unseen } = notJudged(run);
  const { outcomes_seen: seen, outcomes_of: all } = run.coverage;
  const codes = html`<ul class="ids inline">${unseen.map((o) => html`<li><code>${o}</code></li>`)}</ul>`;
  const outcomes =
    unseen.length === 0
      ? null
      : html`<h3>Outcomes</h3><p>${seen} of ${all} documented outcomes were seen in this run. About the others it says nothing.</p><details><summary>${unseen.length} that are in no stage's table</summary>${codes}</details>`;
  const nothing =
    skipped.length + unseen.length === 0
      ? html`<p>Nothing was skipped, and every documented outcome was seen.</p>`
      : null;
  return html`<section class="card" id="not-judged"><h2>What is not judged, and why</h2>${groups("claims-skipped", "Skipped, because this was missing", skipped)}${outcomes}${nothing}</section>`;
};

const HEADS = html`<thead><tr><th>Measurement</th><th>Value</th><th>${defined("interval", "95 % interval")}</th><th>${defined("samples", "Samples")}</th></tr></thead>`;

const measurementRow = (m: Measurement): Markup =>
  html`<tr><td>${definedMeasurement(m.name)}</td><td>${valueText(m)}</td><td>${intervalText(m) ?? whyNoInterval(m) ?? "–"}</td><td>${count(m.n)}</td></tr>`;

/** With more stages than this each is folded. */
const OPEN_STAGES_MOST = 4;

const stageTable = (stage: string, list: readonly Measurement[], isFolded: boolean): Markup => {
  const table = html`<table class="values">${HEADS}<tbody>${list.map(measurementRow)}</tbody></table>`;
  return isFolded
    ? html`<details><summary><b>${stage}</b> <span class="muted">${counted(list.length, "measurement")}</span></summary>${table}</details>`
    : html`<h3>${stage}</h3>${table}`;
};

export const measurementsSection = (run: RunDocument): Markup | null => {
  if (run.measurements.length === 0) return null;
  const byStage = new Map<string, Measurement[]>();
  for (const m of run.measurements) byStage.set(m.stage, [...(byStage.get(m.stage) ?? []), m]);
  const tables = [...byStage].map(([stage, list]) => stageTable(stage, list, byStage.size > OPEN_STAGES_MOST));
  return html`<section class="card" id="measurements"><h2>Measurements</h2><p>A percentile whose samples are too few to bound it on both sides says so. Each name leads to what it means.</p>${tables}</section>`;
};

const calibration = (run: RunDocument): Markup | null => {
  if (run.calibration.length === 0) return null;
  const rows = run.calibration.map(
    (c) =>
      html`<tr><td data-label="what">${c.name}</td><td class="number" data-label="truth">${withUnit(figure(c.truth), c.unit)}</td><td class="number" data-label="measured">${withUnit(figure(c.measured), c.unit)}</td><td data-label="verdict">${badge(c.verdict)}</td></tr>`,
  );
  return html`<h3>Calibration</h3><p>${calibrationText(run.calibration)} Known truths, measured by the same drivers on this machine before the run.</p><table class="measurements"><thead><tr><th>What</th><th class="number">Truth</th><th class="number">Measured</th><th>Verdict</th></tr></thead><tbody>${rows}</tbody></table>`;
};

/** More than these start folded. */
const OPEN_NOTES_MOST = 12;

/** Those of one stage stand in one line. */
const hostNotes = ({ environment, stages }: RunDocument): Markup => {
  const notes = environment.host_notes;
  if (notes.length === 0) return html`<p>Nothing out of the ordinary was noticed on the host.</p>`;
  const names = new Set(stages.map(({ name }) => name));
  const byStage = new Map<string, string[]>();
  for (const note of notes) {
    const [stage = ""] = note.split(": ", 1);
    const isOfStage = names.has(stage);
    const key = isOfStage ? stage : "";
    byStage.set(key, [...(byStage.get(key) ?? []), isOfStage ? note.slice(stage.length + 2) : note]);
  }
  const lines = [...byStage].flatMap(([stage, said]) =>
    stage === "" ? said.map((note) => html`<li>${note}</li>`) : [html`<li><b>${stage}:</b> ${said.join("; ")}</li>`],
  );
  const list = html`<ul class="notes">${lines}</ul>`;
  const shown =
    lines.length > OPEN_NOTES_MOST ? html`<details><summary>Show all ${notes.length}</summary>${list}</details>` : list;
  return html`<p>Noticed on the host during the run. Such things taint claims about time, and only those.</p>${shown}`;
};

export const environmentSection = (run: RunDocument): Markup => {
  const { environment: env, target } = run;
  const spent = spendingText(run);
  const facts: [string, string][] = [
    ["target", `${target.name}${target.embedded ? " (embedded reference platform)" : ""}`],
    ["address", target.base_url],
    ...(spent === null ? [] : [["spent", spent] satisfies [string, string]]),
    ["machine", `${env.os}, ${counted(env.cores, "core")}, ${env.cpu}`],
    ["Node", env.node],
    ["k6", env.k6 ?? "not used"],
    ["toxiproxy", env.toxiproxy ?? "not used"],
    ["commit", run.commit ?? "unknown"],
    ["started", moment(run.started_at)],
    ["finished", moment(run.finished_at)],
  ];
  return html`<section class="card" id="environment"><h2>Where it ran</h2><dl class="facts wide">${facts.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl><h3>Notes on the host</h3>${hostNotes(run)}${calibration(run)}</section>`;
};

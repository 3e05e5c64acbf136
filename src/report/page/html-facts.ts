/** The rest of the page: what is not judged and why, measurements, calibration, and the machine it ran on. */
import type { Measurement, RunDocument } from "../../history/run-document.ts";
import { count, counted, figure, intervalText, moment, valueText, whyNoInterval, withUnit } from "../figures.ts";
import { calibrationText, notJudged, spendingText } from "../run-facts.ts";
import { defined, definedMeasurement } from "./definitions.ts";
import { badge } from "./html-claims.ts";
import { card, codes, facts, folded, html, type Markup, prose, table } from "./markup.ts";

export const notJudgedSection = (run: RunDocument): Markup => {
  const { skipped, unseen } = notJudged(run);
  const { outcomes_seen: seen, outcomes_of: all } = run.coverage;
  const groups = skipped.map(
    ({ reason, ids }) =>
      html`<li><b>${counted(ids.length, "claim")}:</b> ${prose(reason)}${folded("which", codes(ids))}</li>`,
  );
  const claims = html`<h3 id="claims-skipped">Skipped, because this was missing</h3><ul>${groups}</ul>`;
  const outcomes = html`<h3>Outcomes</h3><p>${seen} of ${all} documented outcomes were seen in this run. About the others it says nothing.</p>${folded(`${unseen.length} that are in no stage's table`, codes(unseen, " inline"))}`;
  const nothing = html`<p>Nothing was skipped, and every documented outcome was seen.</p>`;
  const body = [skipped.length > 0 && claims, unseen.length > 0 && outcomes];
  return card("not-judged", "What is not judged, and why", body.some(Boolean) ? body : nothing);
};

const HEADS = ["Measurement", "Value", defined("interval", "95 % interval"), defined("samples", "Samples")];

const measurementRow = (m: Measurement): Markup =>
  html`<tr><td>${definedMeasurement(m.name)}</td><td>${valueText(m)}</td><td>${intervalText(m) ?? whyNoInterval(m) ?? "–"}</td><td>${count(m.n)}</td></tr>`;

/** With more stages than this, each stage is folded. */
const OPEN_STAGES_MOST = 4;

export const measurementsSection = ({ measurements }: RunDocument): Markup | null => {
  const byStage = Map.groupBy(measurements, ({ stage }) => stage);
  const tables = [...byStage].map(([stage, list]) => {
    const values = table("values", HEADS, list.map(measurementRow));
    const summary = html`<b>${stage}</b> <span class="muted">${counted(list.length, "measurement")}</span>`;
    return byStage.size > OPEN_STAGES_MOST ? folded(summary, values) : html`<h3>${stage}</h3>${values}`;
  });
  const lead = html`<p>A percentile whose samples are too few to bound it on both sides says so. Each name leads to what it means.</p>`;
  return measurements.length === 0 ? null : card("measurements", "Measurements", lead, tables);
};

const calibration = ({ calibration: checks }: RunDocument): Markup | null => {
  if (checks.length === 0) return null;
  const rows = checks.map(({ name, truth, measured, unit, verdict }) => {
    const number = (label: string, value: number): Markup =>
      html`<td class="number" data-label="${label}">${withUnit(figure(value), unit)}</td>`;
    return html`<tr><td data-label="what">${name}</td>${number("truth", truth)}${number("measured", measured)}<td data-label="verdict">${badge(verdict)}</td></tr>`;
  });
  const heads = ["What", { number: "Truth" }, { number: "Measured" }, "Verdict"];
  return html`<h3>Calibration</h3><p>${calibrationText(checks)} Known truths, measured by the same drivers on this machine before the run.</p>${table("measurements", heads, rows)}`;
};

/** More notes than this start folded. */
const OPEN_NOTES_MOST = 12;

/** Notes on the host; those of one stage share a line. */
const hostNotes = ({ environment, stages }: RunDocument): Markup => {
  const notes = environment.host_notes;
  if (notes.length === 0) return html`<p>Nothing out of the ordinary was noticed on the host.</p>`;
  const names = new Set(stages.map(({ name }) => name));
  const byStage = Map.groupBy(notes, (note) => {
    const [stage = ""] = note.split(": ", 1);
    return names.has(stage) ? stage : "";
  });
  const lines = [...byStage].flatMap(([stage, said]) =>
    stage === ""
      ? said.map((note) => html`<li>${prose(note)}</li>`)
      : html`<li><b>${stage}:</b> ${prose(said.map((note) => note.slice(stage.length + 2)).join("; "))}</li>`,
  );
  const list = html`<ul class="notes">${lines}</ul>`;
  return html`<p>Noticed on the host during the run. Such things taint claims about time, and only those.</p>${lines.length > OPEN_NOTES_MOST ? folded(`Show all ${notes.length}`, list) : list}`;
};

export const environmentSection = (run: RunDocument): Markup => {
  const { environment: env, target } = run;
  const all = [
    ["target", `${target.name}${target.embedded ? " (embedded reference platform)" : ""}`],
    ["address", target.base_url],
    ["spent", spendingText(run)],
    ["machine", `${env.os}, ${counted(env.cores, "core")}, ${env.cpu}`],
    ["Node", env.node],
    ["k6", env.k6 ?? "not used"],
    ["toxiproxy", env.toxiproxy ?? "not used"],
    ["commit", run.commit ?? "unknown"],
    ["started", moment(run.started_at)],
    ["finished", moment(run.finished_at)],
  ] as const;
  const notes = html`<h3>Notes on the host</h3>${hostNotes(run)}${calibration(run)}`;
  return card("environment", "Where it ran", facts(" wide", all), notes);
};

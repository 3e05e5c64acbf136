/** The facts of the page: the outcomes of each stage as a bar and a table that share letters, the faults in time, what
 * is not judged and why, measurements, calibration, and the machine it ran on. */
import type { FaultRecord, Measurement, RunDocument, StageSummary } from "../../history/run-document.ts";
import { sumOf } from "../../history/statistics/statistics.ts";
import { driverText, fillOf, OUTCOME_KINDS, type OutcomeRow, outcomeRows, swatch } from "../charts/layers.ts";
import {
  count,
  counted,
  duration,
  figure,
  intervalText,
  moment,
  share,
  valueText,
  whyNoInterval,
  withUnit,
} from "../figures.ts";
import { calibrationText, notJudged, spendingText, statesMet } from "../run-facts.ts";
import { defined, definedMeasurement } from "./definitions.ts";
import { badge } from "./html-claims.ts";
import { card, codes, facts, folded, html, type Markup, prose, table } from "./markup.ts";

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

const atTime = (ms: number): string => (ms === 0 ? "0 s" : duration(ms));
const when = (fault: FaultRecord): string => `${atTime(fault.started_ms)} to ${atTime(fault.ended_ms)}`;

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
    return html`<text x="${i * 50}%" y="14" text-anchor="${anchor}">${atTime((i / 2) * spanMs)}</text>`;
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

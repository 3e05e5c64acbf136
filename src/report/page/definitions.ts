/** The definition of every word and figure of the page, to which figures and heads of tables link. */
import type { RunDocument } from "../../history/run-document.ts";
import { OUTCOME_KINDS } from "../charts/layers.ts";
import { html, type Markup, prose } from "./markup.ts";

/** Meanings by the name of a measurement without its quantile. */
// biome-ignore format: a figure on a line
const MEASUREMENTS: Readonly<Record<string, string>> = {
  achieved_rate: "first attempts per second",
  offered_rate: "arrivals of the schedule per second",
  rate_error: "rate sent over rate offered, less 1",
  latency_ms: "from when a call should have left to the end of its answer",
  first_attempts: "calls that the schedule asked for and that left",
  retries: "calls made again after a refusal, beside the first attempts",
  amplification: "attempts made, retries included, over first attempts",
  session_mints: "calls that minted a session, beside the schedule",
  refusal_ms: "from when a call should have left to its refusal",
  latency_from_sent_ms: "from writing a call to the end of its answer",
  refusal_from_sent_ms: "from writing a call to its refusal",
  ttfe_from_sent_ms: "from writing a call to the first event of its stream",
  schedule_lag_ms: "how late the generator itself was",
  ttfe_ms: "from the moment it should have left to the first event of a stream",
  event_gap_ms: "between two events of a stream",
  knee_rps: "calls per second that can be carried, found by a load that rises past them",
  knee_after_rps: "the same once the overload was over",
  goodput_retention: "good calls per second at 2 times the knee, over the largest at any load",
  goodput_retention_5: "the same at 5 times the knee",
  goodput_retention_10: "the same at 10 times the knee",
  closed_form: "good calls per second over what Erlang's formula has for the stated slots, at the load where that is least",
  excess_sheds: "share of calls shed beyond those that the knee cannot carry, at the load where it is largest",
  false_sheds: "share of calls shed at up to 0.7 of the knee",
  hysteresis: "area between the curves of good calls on the way up and on the way down, over the area under the first",
  oscillation: "how far the share shed swings between windows of one load, over what chance does",
  refusal_price: "what a refused call costs the deployment, in served calls",
  refusal_at_top_ms: "from when a call should have left to its refusal, at the highest load",
  wasted_work: "events past the knee on streams that were cut or came late, over all events there",
  reaction_ms: "from a step of load or capacity until every later window keeps 95 % of the goodput to come, and its p99 the objective",
  recovery_ms: "from the end of an overload until goodput and latency are back to what they were before it",
  isolation: "share of a quiet organization's calls that are answered without the noisy one and also beside it",
  jain_index: "evenness of what organizations got over their fair share: 1 is all the same",
  slots_leaked: "slots taken after the drain, beyond those before the stage",
  capacity_rps: "highest rate inside the objective",
};

export const MEASUREMENT_NAMES: readonly string[] = Object.keys(MEASUREMENTS);

// biome-ignore format: a word on a line
const WORDS: readonly (readonly [id: string, word: string, meaning: string])[] = [
  ["claim", "claim", "one judged statement about the run; its id is what is judged, a slash, and where"],
  ["pass", "pass", "the claim held in all that was seen"],
  ["fail", "fail", "the claim was seen broken"],
  ["inconclusive", "inconclusive", "tried, and could not be decided: too few calls, a doubt about machine or generator, a state never reached. Not a pass"],
  ["skipped", "skipped", "not judged, because the target lacks what it takes, which is named. Not a pass"],
  ["level", "must, should, info", "a broken must fails the run, an undecided one makes it inconclusive; should and info never decide"],
  ["item", "item", "number of a requirement in src/contract/requirements.md; `npx floodgate explain CLAIM` prints it"],
  ["calls", "calls", "requests that were sent, each counted once by its outcome"],
  ["offered", "offered", "calls that the schedule asked for, by the moment at which each was due"],
  ["share", "share", "calls with this outcome, over all calls of the stage"],
  ["outcomes", "outcomes seen", "how many of the documented answers of the API came at least once in the run"],
  ["duration", "duration", "from the start of the run to its end, preparations included"],
  ["interval", "95 % interval", "where the true value lies with 95 % certainty, by the effective sample size: calls of one burst are correlated and count less. – : a plain count or rate"],
  ["samples", "samples", "how many values the figure was made of"],
  ["percentile", "p50, p90, p99, p999", "half, 90 %, 99 %, 99.9 % of the values lie below it"],
  ["fault", "fault", "something broken on purpose; a filled bar took effect, a dashed frame did not"],
  ["calibration", "calibration", "known truths (delays, a stall), measured by the same drivers on this machine before the run"],
];

/** The id of a measurement, which has no quantile, and its meaning. */
const known = (name: string): readonly [id: string, meaning: string | undefined] => {
  if (name.startsWith("streams_")) return ["streams", "streams that came to this end"];
  const id = name.replace(/_(?:p\d+|max)$/, "");
  const meaning = (one: string) => (Object.hasOwn(MEASUREMENTS, one) ? MEASUREMENTS[one] : undefined);
  return [id, meaning(name) ?? meaning(id)];
};

/** The meaning of a measurement, with or without its quantile, or of a word of the page. */
export const meaningOf = (asked: string): string | undefined =>
  known(asked)[1] ?? WORDS.find(([id, word]) => id === asked || word.split(", ").includes(asked))?.[2];

export const defined = (id: string, text: string | Markup) => html`<a class="def" href="#def-${id}">${text}</a>`;

/** The name of a measurement, linked to its definition if it has one. */
export const definedMeasurement = (name: string): Markup => {
  const [id, meaning] = known(name);
  const text = html`<code>${name}</code>`;
  return meaning === undefined ? text : defined(`m-${id}`, text);
};

export const definitionsSection = (run: RunDocument): Markup => {
  const names = new Map(run.measurements.map(({ name }) => known(name)));
  const row = (id: string, word: Markup | string, meaning: string): Markup =>
    html`<dt id="def-${id}">${word}</dt><dd>${prose(meaning)}</dd>`;
  const rows = [
    ...WORDS.map(([id, word, meaning]) => row(id, word, meaning)),
    ...Object.entries(OUTCOME_KINDS).map(([kind, { label, meaning }]) => row(`kind-${kind}`, label, meaning)),
    ...[...names].map(([name, meaning]) =>
      meaning === undefined ? "" : row(`m-${name}`, html`<code>${name}</code>`, meaning),
    ),
  ];
  return html`<section class="card" id="definitions"><h2>What words and figures mean</h2><dl class="facts wide">${rows}</dl></section>`;
};

/** What every word and figure of the page means, once; figures and heads of tables point here. */
import type { RunDocument } from "../../history/run-document.ts";
import { OUTCOME_KINDS } from "../outcome-kinds.ts";
import { html, type Markup } from "./markup.ts";

/** By the name of a measurement without its quantile. */
const MEASUREMENTS: Readonly<Record<string, string>> = {
  achieved_rate: "first attempts per second",
  offered_rate: "arrivals of the schedule per second",
  rate_error: "rate sent over rate offered, less 1",
  latency_ms: "from when a call should have left to the end of its answer",
  first_attempts: "calls that the schedule asked for and that left",
  retries: "calls made again after a refusal, beside the first attempts",
  amplification: "first attempts and retries, over first attempts",
  session_mints: "calls that minted a session, beside the schedule",
  refusal_ms: "from when a call should have left to its refusal",
  latency_from_sent_ms: "from writing a call to the end of its answer",
  refusal_from_sent_ms: "from writing a call to its refusal",
  ttfe_from_sent_ms: "from writing a call to the first event of its stream",
  schedule_lag_ms: "how late the generator itself was",
  ttfe_ms: "from the moment it should have left to the first event of a stream",
  event_gap_ms: "between two events of a stream",
  goodput_retention: "useful answers per second, over those at the knee",
  reaction_ms: "until the overload was answered by shedding",
  recovery_ms: "until the steady state was back",
  isolation: "what quiet organizations kept beside a noisy one",
  jain_index: "evenness between organizations: 1 is all the same",
  false_sheds: "calls shed below the cap",
  slots_leaked: "slots not given back",
  capacity_rps: "highest rate inside the objective",
};

/** Everything else that a figure may stand for. */
const WORDS: readonly (readonly [id: string, word: string, meaning: string])[] = [
  ["claim", "claim", "one judged statement about the run; its id is what is judged, a slash, and where"],
  ["pass", "pass", "the claim held in all that was seen"],
  ["fail", "fail", "the claim was seen broken"],
  [
    "inconclusive",
    "inconclusive",
    "tried, and could not be decided: too few calls, a doubt about machine or generator, a state never reached. Not a pass",
  ],
  ["skipped", "skipped", "not judged, because the target lacks what it takes, which is named. Not a pass"],
  [
    "level",
    "must, should, info",
    "a broken must fails the run, an undecided one makes it inconclusive; should and info never decide",
  ],
  ["item", "item", "number of a requirement in src/contract/requirements.md; `npx floodgate explain CLAIM` prints it"],
  ["calls", "calls", "requests that were sent, each counted once by its outcome"],
  ["offered", "offered", "calls that the schedule asked for, by the moment at which each was due"],
  ["share", "share", "calls with this outcome, over all calls of the stage"],
  ["outcomes", "outcomes seen", "how many of the documented answers of the API came at least once in the run"],
  ["duration", "duration", "from the start of the run to its end, preparations included"],
  [
    "interval",
    "95 % interval",
    "where the true value lies with 95 % certainty, by the effective sample size: calls of one burst are correlated and count less. – : a plain count or rate",
  ],
  ["samples", "samples", "how many values the figure was made of"],
  ["percentile", "p50, p90, p99, p999", "half, 90 %, 99 %, 99.9 % of the values lie below it"],
  ["fault", "fault", "something broken on purpose; a filled bar took effect, a dashed frame did not"],
  [
    "calibration",
    "calibration",
    "known truths (delays, a stall), measured by the same drivers on this machine before the run",
  ],
];

const nameOf = (name: string): string => name.replace(/_(?:p\d+|max)$/, "");

const meaningOf = (name: string): string | undefined =>
  name.startsWith("streams_") ? "streams that came to this end" : (MEASUREMENTS[name] ?? MEASUREMENTS[nameOf(name)]);

/** A word or figure as a link to its definition. */
export const defined = (id: string, text: string | Markup): Markup =>
  html`<a class="def" href="#def-${id}">${text}</a>`;

/** The name of a measurement; without a link where nothing is said of it. */
export const definedMeasurement = (name: string): Markup => {
  if (meaningOf(name) === undefined) return html`<code>${name}</code>`;
  return defined(name.startsWith("streams_") ? "m-streams" : `m-${nameOf(name)}`, html`<code>${name}</code>`);
};

export const definitionsSection = (run: RunDocument): Markup => {
  const names = new Map<string, string>();
  for (const { name } of run.measurements) {
    const meaning = meaningOf(name);
    if (meaning !== undefined) names.set(name.startsWith("streams_") ? "streams" : nameOf(name), meaning);
  }
  const row = (id: string, word: Markup | string, meaning: string): Markup =>
    html`<dt id="def-${id}">${word}</dt><dd>${meaning}</dd>`;
  return html`<section class="card" id="definitions"><h2>What words and figures mean</h2><dl class="facts wide">${WORDS.map(([id, word, meaning]) => row(id, word, meaning))}${Object.entries(OUTCOME_KINDS).map(([kind, { label, meaning }]) => row(`kind-${kind}`, label, meaning))}${[...names].map(([name, meaning]) => row(`m-${name}`, html`<code>${name}</code>`, meaning))}</dl></section>`;
};

/**
 * `report.html`: one page that holds all it shows. It loads nothing and runs nothing (its own policy forbids both), opens
 * from a file, in light and dark, on a phone, on paper. The verdict stands first, then why, then what was not judged.
 */
import type { RunDocument, Verdict } from "../history/run-document.ts";
import { claimsInOrder, countByVerdict, VERDICTS } from "./claim-order.ts";
import { oneLine } from "./escape.ts";
import { count, counted, duration, moment } from "./figures.ts";
import { claimsSection, sign } from "./html-claims.ts";
import { environmentSection, measurementsSection, notJudgedSection } from "./html-facts.ts";
import { faultsSection, stagesSection } from "./html-stages.ts";
import { PAGE_STYLE } from "./html-style.ts";
import { html, Markup } from "./markup.ts";
import { patterns } from "./outcome-bar.ts";
import { whyOf } from "./verdict.ts";

const FIRST_MAX = 5;

const MEANING: Readonly<Record<Verdict, string>> = {
  pass: "All that must hold and was judged did hold.",
  fail: "Something that must hold was seen broken.",
  inconclusive: "Nothing that must hold was seen broken, but too little is known to call it a pass.",
};

const banner = (run: RunDocument): Markup => {
  const open = claimsInOrder(run.claims).filter(
    (c) => c.level === "must" && c.verdict === run.verdict && c.verdict !== "pass",
  );
  const first = open.slice(0, FIRST_MAX).map((c) => html`<li><code>${c.id}</code>: ${c.reason}</li>`);
  // A failed run's reason is the list itself; an inconclusive one may have further reasons (something required is absent).
  const why = run.verdict === "fail" && open.length > 0 ? null : html`<p>${whyOf(run)}</p>`;
  const more =
    open.length > FIRST_MAX ? html`<li><a href="#claims">and ${open.length - FIRST_MAX} more</a></li>` : null;
  return html`<section class="banner ${run.verdict}"><div class="verdict">${sign(run.verdict, 56)}<h1>${run.verdict}</h1></div>
<p class="lead">${MEANING[run.verdict]}</p>${why}${open.length === 0 ? null : html`<ul>${first}${more}</ul>`}</section>`;
};

/** What is not judged, in a line under the verdict: a pass of little must not look like a pass of all. */
const coverageLine = (run: RunDocument): Markup => {
  const counts = countByVerdict(run.claims);
  const { outcomes_seen: seen, outcomes_of: all } = run.coverage;
  return html`<p class="coverage"><b>Not judged:</b> ${counted(counts.skipped, "claim")} skipped, ${counts.inconclusive} could not be decided, ${Math.max(0, all - seen)} of ${all} documented outcomes never seen. <a href="#not-judged">Which, and why</a></p>`;
};

const tiles = (run: RunDocument): Markup => {
  const counts = countByVerdict(run.claims);
  const verdicts = VERDICTS.map((verdict) => {
    const inside = html`<span class="big">${sign(verdict, 20)} ${counts[verdict]}</span><span class="small">${verdict}</span>`;
    return counts[verdict] === 0
      ? html`<div class="tile">${inside}</div>`
      : html`<a class="tile" href="#claims-${verdict}">${inside}</a>`;
  });
  const sent = run.stages.reduce((sum, stage) => sum + stage.calls.sent, 0);
  const others = [
    ["calls", count(sent)],
    ["outcomes seen", `${run.coverage.outcomes_seen} of ${run.coverage.outcomes_of}`],
    ["duration", duration(run.duration_ms)],
  ].map(
    ([name, value]) =>
      html`<div class="tile"><span class="big">${value!}</span><span class="small">${name!}</span></div>`,
  );
  return html`<div class="tiles">${verdicts}${others}</div>`;
};

const CONTENTS = [
  ["claims", "Claims"],
  ["not-judged", "Not judged"],
  ["stages", "Stages"],
  ["faults", "Faults"],
  ["measurements", "Measurements"],
  ["environment", "Where it ran"],
] as const;

const contents = (run: RunDocument): Markup => {
  const there = CONTENTS.filter(([id]) => id !== "measurements" || run.measurements.length > 0);
  return html`<nav aria-label="Contents">${there.map(([id, name]) => html`<a href="#${id}">${name}</a> `)}</nav>`;
};

/** A whole HTML document. */
export const htmlReport = (run: RunDocument): string => {
  const title = `${run.verdict}: ${oneLine(run.profile)} on ${oneLine(run.target.name)}, seed ${run.seed}`;
  const page = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">
<title>${title}</title><style>${new Markup(PAGE_STYLE)}</style></head>
<body>${patterns()}<main>
<header><p class="brand">Floodgate</p><p class="muted">${run.profile} on ${run.target.name}, seed ${run.seed}, ${moment(run.started_at)}<br><code>${run.id}</code></p></header>
${banner(run)}
${coverageLine(run)}
${tiles(run)}
${contents(run)}
${claimsSection(run)}
${notJudgedSection(run)}
${stagesSection(run)}
${faultsSection(run)}
${measurementsSection(run)}
${environmentSection(run)}
<footer class="muted small">Times of a shared machine decide nothing by themselves. The same facts for programs: run.json, junit.xml, ctrf.json, metrics.prom; every call: history.ndjson.</footer>
</main></body></html>
`;
  return page.text;
};

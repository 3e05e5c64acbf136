/**
 * `report.html`: one page that holds all it shows. It loads nothing and runs nothing but one script of its own, which its
 * policy names by its hash and without which it is whole. It opens from a file, in light and dark, on a phone, on paper. The verdict stands first, then why, then what was not judged.
 */
import type { RunDocument, Verdict } from "../../history/run-document.ts";
import type { Series } from "../../history/series.ts";
import { chartsSection, type Found, lostTo } from "../charts/charts-section.ts";
import type { Detail } from "../charts/course.ts";
import { claimsInOrder, countByVerdict, VERDICTS } from "../claim-order.ts";
import { oneLine, utf8Bytes } from "../escape.ts";
import { count, counted, duration, moment } from "../figures.ts";
import { whyOf } from "../verdict.ts";
import { claimsSection, sign } from "./html-claims.ts";
import { environmentSection, measurementsSection, notJudgedSection } from "./html-facts.ts";
import { faultsSection, stagesSection } from "./html-stages.ts";
import { html, type Markup } from "./markup.ts";
import { pageShell } from "./page-shell.ts";

const FIRST_MAX = 5;

/** A pass says of how many claims. */
const MEANING: Readonly<Record<Exclude<Verdict, "pass">, string>> = {
  fail: "Something that must hold was seen broken.",
  inconclusive: "Nothing that must hold was seen broken, but too little is known to call it a pass.",
};

const banner = (run: RunDocument): Markup => {
  const open = claimsInOrder(run.claims).filter(
    (c) => c.level === "must" && c.verdict === run.verdict && c.verdict !== "pass",
  );
  const first = open.slice(0, FIRST_MAX).map((c) => html`<li><code>${c.id}</code>: ${c.reason}</li>`);
  // A failed run's reason is the list itself; an inconclusive one may have further reasons (something required is absent).
  const why = run.verdict === "pass" || (run.verdict === "fail" && open.length > 0) ? null : html`<p>${whyOf(run)}</p>`;
  const more =
    open.length > FIRST_MAX ? html`<li><a href="#claims">and ${open.length - FIRST_MAX} more</a></li>` : null;
  return html`<section class="banner ${run.verdict}"><div class="verdict">${sign(run.verdict, 56)}<h1>${run.verdict}</h1></div>
<p class="lead">${run.verdict === "pass" ? whyOf(run) : MEANING[run.verdict]}</p>${why}${open.length === 0 ? null : html`<ul>${first}${more}</ul>`}</section>`;
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
  ["courses", "Over time"],
  ["claims", "Claims"],
  ["not-judged", "Not judged"],
  ["stages", "Stages"],
  ["faults", "Faults"],
  ["measurements", "Measurements"],
  ["environment", "Where it ran"],
] as const;

const contents = (run: RunDocument, charts: Markup | null): Markup => {
  const there = CONTENTS.filter(
    ([id]) => (id !== "measurements" || run.measurements.length > 0) && (id !== "courses" || charts !== null),
  );
  return html`<nav aria-label="Contents">${there.map(([id, name]) => html`<a href="#${id}">${name}</a> `)}</nav>`;
};

const page = (run: RunDocument, charts: Markup | null): string => {
  const title = `${run.verdict}: ${oneLine(run.profile)} on ${oneLine(run.target.name)}, seed ${run.seed}`;
  return pageShell(
    title,
    html`<header><p class="brand">Floodgate</p><p class="muted">${run.profile} on ${run.target.name}, seed ${run.seed}, ${moment(run.started_at)}<br><code>${run.id}</code></p></header>
${banner(run)}
${coverageLine(run)}
${tiles(run)}
${contents(run, charts)}
${charts}
${claimsSection(run)}
${notJudgedSection(run)}
${stagesSection(run)}
${faultsSection(run)}
${measurementsSection(run)}
${environmentSection(run)}
<footer class="muted small">Times of a shared machine decide nothing by themselves. The same facts for programs: run.json, series.json, junit.xml, ctrf.json, metrics.prom; every call: history.ndjson.</footer>`,
    charts !== null,
  );
};

const MEGABYTE = 1_048_576;
const BYTES_MOST = MEGABYTE;
const BYTES_AT_ALL = 3 * MEGABYTE;

/** From the finest to the coarsest; a page takes the first with which it is small enough. */
const DETAILS: readonly Detail[] = [
  { binsMost: 300, rowsMost: 60, folded: "all" },
  { binsMost: 160, rowsMost: 40, folded: "all" },
  { binsMost: 100, rowsMost: 25, folded: "all" },
  { binsMost: 100, rowsMost: 25, folded: "main" },
  { binsMost: 60, rowsMost: 15, folded: "main" },
  { binsMost: 40, rowsMost: 8, folded: "least" },
  { binsMost: 24, rowsMost: 4, folded: "least" },
];

/** What is coarser or left out, so that a reader knows what to look for elsewhere; `null` where all is there. */
const noteOf = (run: RunDocument, series: Series, detail: Detail): string | null => {
  const lost = lostTo(run, series, detail, DETAILS[0] as Detail);
  if (lost.length === 0) return null;
  return `There are many stages: to keep this page below 1 MB, ${lost.join("; ")}. series.json has all of it.`;
};
const NO_CHARTS = "The charts were left out: with them this page would be above 3 MB. series.json has what they show.";

/** A whole HTML document: at most 1 MB where coarser charts can bring that about, and never more than 3 MB for charts. */
export const htmlReport = (run: RunDocument, series?: Series, found: Found = {}): string => {
  if (series === undefined) return page(run, null);
  let text = "";
  for (let i = 0; i < DETAILS.length; ) {
    const detail = DETAILS[i] as Detail;
    const charts = chartsSection(run, series, found, detail, noteOf(run, series, detail));
    text = page(run, charts);
    const bytes = utf8Bytes(text);
    if (charts === null || bytes <= BYTES_MOST) return text;
    // Far too large: the next one would be as well, and drawing takes time.
    const step = bytes > 2 * BYTES_MOST ? 2 : 1;
    i = i === DETAILS.length - 1 ? DETAILS.length : Math.min(i + step, DETAILS.length - 1);
  }
  if (utf8Bytes(text) <= BYTES_AT_ALL) return text;
  return page(run, html`<section class="card" id="courses"><h2>Over time</h2><p>${NO_CHARTS}</p></section>`);
};

/**
 * `report.html`: one page that holds all it shows. It loads nothing and runs nothing but one script of its own, which its
 * policy names by its hash and without which it is whole. The verdict stands first, then why, then what was not judged.
 */
import type { RunDocument } from "../../history/run-document.ts";
import type { Series } from "../../history/series.ts";
import type { Detail } from "../charts/chart-series.ts";
import { chartsSection, type Found, isDrawn } from "../charts/charts-section.ts";
import { curveSection } from "../charts/curve-charts.ts";
import { claimsInOrder, countByVerdict, VERDICTS } from "../claim-order.ts";
import { oneLine, utf8Bytes } from "../escape.ts";
import { count, duration, moment } from "../figures.ts";
import { whyOf } from "../verdict.ts";
import { changesSection, type Earlier } from "./changes.ts";
import { defined, definitionsSection } from "./definitions.ts";
import { headline } from "./headline.ts";
import { type ChartOf, openClaimsSection, passedClaimsSection, sign } from "./html-claims.ts";
import { environmentSection, measurementsSection, notJudgedSection } from "./html-facts.ts";
import { faultsSection, stagesSection } from "./html-stages.ts";
import { card, html, type Markup } from "./markup.ts";
import { pageShell } from "./page-shell.ts";

const FIRST_MAX = 5;

/** Of a run that is not a pass: how many claims decided it, which are listed beneath. */
const leadOf = ({ verdict, claims }: RunDocument): string => {
  const musts = claims.filter(({ level }) => level === "must");
  const those = musts.filter((claim) => claim.verdict === verdict).length;
  const of = `${those} of ${musts.length} required claims`;
  return verdict === "fail"
    ? `${of} ${those === 1 ? "is" : "are"} broken.`
    : "No required claim was seen broken, but too little is known to call it a pass.";
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
  return html`<section class="banner ${run.verdict}"><div class="verdict">${sign(run.verdict, 40)}<h1>${run.verdict}</h1></div>
<p class="lead">${run.verdict === "pass" ? whyOf(run) : leadOf(run)}</p>${why}${open.length === 0 ? null : html`<ul>${first}${more}</ul>`}</section>`;
};

/** Each figure leads to what it is made of, each word to its definition. */
const tiles = (run: RunDocument): Markup => {
  const counts = countByVerdict(run.claims);
  const { outcomes_seen: seen, outcomes_of: all } = run.coverage;
  const tile = (href: string | null, big: string | Markup, [id, word]: readonly [string, string]): Markup =>
    html`<div class="tile">${href === null ? html`<span class="big">${big}</span>` : html`<a class="big" href="#${href}">${big}</a>`}<span class="small">${defined(id, word)}</span></div>`;
  const verdicts = VERDICTS.map((verdict) => {
    const href = counts[verdict] === 0 ? null : `claims-${verdict}`;
    return tile(href, html`${sign(verdict, 20)} ${counts[verdict]}`, [verdict, verdict]);
  });
  const sent = run.stages.reduce((sum, stage) => sum + stage.calls.sent, 0);
  const others = [
    tile("stages", count(sent), ["calls", "calls"]),
    tile("not-judged", `${seen} of ${all}`, ["outcomes", "outcomes seen"]),
    tile("environment", duration(run.duration_ms), ["duration", "duration"]),
  ];
  return html`<div class="tiles">${verdicts}${others}</div>`;
};

/** Sections with a link to each; those that are not there are left out. */
const contents = (sections: readonly (readonly [id: string, name: string, section: Markup | null])[]): Markup => {
  const there = sections.filter(([, , section]) => section !== null);
  return html`<nav aria-label="Contents">${there.map(([id, name]) => html`<a href="#${id}">${name}</a> `)}</nav>`;
};

type Drawn = { charts: Markup | null; first: Markup | null; curve: Markup | null; chartOf: ChartOf };

const page = (run: RunDocument, { charts, first, curve, chartOf }: Drawn, earlier: Earlier | undefined): string => {
  const title = `${run.verdict}: ${oneLine(run.profile)} on ${oneLine(run.target.name)}, seed ${run.seed}`;
  const sections = [
    ["curve", "Shedding by load", curve],
    ["changes", "Since the run before", changesSection(run, earlier)],
    ["claims", "Not a pass", openClaimsSection(run, chartOf)],
    ["courses", "Over time", charts],
    ["not-judged", "Not judged", notJudgedSection(run)],
    ["stages", "Stages", stagesSection(run)],
    ["faults", "Faults", faultsSection(run)],
    ["measurements", "Measurements", measurementsSection(run)],
    ["held", "What held", passedClaimsSection(run)],
    ["environment", "Where it ran", environmentSection(run)],
    ["definitions", "Words", definitionsSection(run)],
  ] as const;
  return pageShell(
    title,
    html`<header><p class="brand">Floodgate</p><p class="muted">${run.profile} on ${run.target.name}, seed ${run.seed}, ${moment(run.started_at)}<br><code>${run.id}</code></p></header>
${banner(run)}
${first}
${tiles(run)}
${contents(sections)}
${sections.map(([, , section]) => section)}
<footer class="muted small">Times of a shared machine decide nothing by themselves. The same facts for programs: run.json, series.json, junit.xml, ctrf.json, metrics.prom; every call: history.ndjson.</footer>`,
    charts !== null,
  );
};

const MEGABYTE = 1_048_576;
/** A page of few stages opens on a phone; one of a night has more to show. */
const bytesMost = (stages: number): number => (stages <= 12 ? 500_000 : MEGABYTE);
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

/** What is coarser or left out, so that a reader knows what to look for elsewhere; `null` of the finest. */
const noteOf = (detail: Detail): string | null => {
  if (detail === DETAILS[0]) return null;
  const generator = detail.folded === "least" ? "the generator, " : "";
  const left = `; stages that start folded have no charts of ${generator}first events, gaps, CPU, percentiles and organizations`;
  return `To keep this page small, bins of long stages are longer, and their tables have fewer rows${detail.folded === "all" ? "" : left}. series.json has all of it.`;
};
const NO_CHARTS = "The charts were left out: with them this page would be above 3 MB. series.json has what they show.";

/** A whole HTML document: as small as `bytesMost` where coarser charts achieve that, and without charts rather than above 3 MB. */
export const htmlReport = (run: RunDocument, series?: Series, found: Found & { earlier?: Earlier } = {}): string => {
  const { earlier } = found;
  const curve = curveSection(found.curve, run.claims);
  if (series === undefined) return page(run, { charts: null, first: null, curve, chartOf: () => undefined }, earlier);
  const drawn = series.stages.filter(isDrawn(run.stages)).map(({ stage }) => stage);
  const first = headline(run, series, found, curve !== null);
  const chartOf: ChartOf = (stage) => (drawn.includes(stage) ? `c${drawn.indexOf(stage)}` : undefined);
  let text = "";
  for (let i = 0; i < DETAILS.length; ) {
    const detail = DETAILS[i] as Detail;
    const charts = chartsSection(run, series, detail, noteOf(detail));
    text = page(run, { charts, first, curve, chartOf }, earlier);
    const bytes = utf8Bytes(text);
    const most = bytesMost(drawn.length);
    if (charts === null || bytes <= most) return text;
    // Far too large: the next one would be as well, and drawing takes time.
    const step = bytes > 2 * most ? 2 : 1;
    i = i === DETAILS.length - 1 ? DETAILS.length : Math.min(i + step, DETAILS.length - 1);
  }
  if (utf8Bytes(text) <= BYTES_AT_ALL) return text;
  const charts = card("courses", "Over time", html`<p>${NO_CHARTS}</p>`);
  return page(run, { charts, first, curve, chartOf: () => undefined }, earlier);
};

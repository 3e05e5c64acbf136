/**
 * `report.html`: one page that loads nothing. It runs one script of its own, which its policy names by its hash, and is
 * complete without it. The verdict comes first, then the reasons, then what was not judged.
 */
import { scaleLinear } from "d3-scale";
import type { Claim, ClaimVerdict, RunDocument, StageSummary } from "../../history/run-document.ts";
import type { Series, StageSeries } from "../../history/series.ts";
import { sumOf } from "../../history/statistics/statistics.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { type ChartSeries, chartSeriesOf, type Detail, stepPath, WIDTH } from "../charts/chart-series.ts";
import { curveSection } from "../charts/curve-charts.ts";
import { faultFacts } from "../charts/faults.ts";
import { capacityCharts, gateChart } from "../charts/found-charts.ts";
import { bandShapes, type Chart, chartFigure, figuresOverTime } from "../charts/frame.ts";
import { countsOf, layerAreas, layerShape } from "../charts/layers.ts";
import { chartsOfStage, loadChart } from "../charts/stage-charts.ts";
import { oneLine, utf8Bytes } from "../escape.ts";
import { count, counted, duration, milliseconds, moment, seconds, share } from "../figures.ts";
import { claimsInOrder, countByVerdict, VERDICTS, whyOf } from "../verdict.ts";
import { defined, definitionsSection } from "./definitions.ts";
import { type ChartOf, openClaimsSection, passedClaimsSection, sign } from "./html-claims.ts";
import * as facts from "./html-facts.ts";
import { card, html, type Markup, prose } from "./markup.ts";
import { pageShell } from "./page-shell.ts";

// The part of the page that shows a run over time: a block for each stage, open if it needs a look.

/** A chart of fewer calls shows no more than its table. */
const CALLS_LEAST = 20;
/** With more stages than this, only stages that need a look start open, at most `NEED_MOST`. */
const OPEN_MOST = 3;
const NEED_MOST = 6;

/** A block of charts that share a cursor and a zoom, with what stands before and after them. */
export const chartsBlock = (
  about: { id: string; name: string; calls: number; isOpen: boolean; before?: Markup | null; after: Markup },
  stage: ChartSeries,
  overTime: readonly Chart[],
): Markup => {
  const { id, name, calls, isOpen, before, after } = about;
  const width = `Bins of ${milliseconds(stage.series.bin_ms)}, by the moment at which a call was due; times are counted from the first. How long something took is exact to 2.2 % here, and to 0.1 % under Measurements.`;
  return html`<details class="course" id="${id}" data-span="${stage.spanS}"${isOpen && html` open`}><summary><b>${name}</b> <span class="muted">${counted(calls, "call")} in ${seconds(Number(stage.spanS.toFixed(1)))}.</span> <span class="said">${overTime[0]?.finding}</span></summary>
<p class="small muted">${width}</p>${before}${figuresOverTime(overTime)}${after}</details>`;
};

const stageBlock = (whole: StageSeries, run: RunDocument, detail: Detail, id: string, isOpen: boolean): Markup => {
  // An open block stays readable, however many others there are.
  const [columns, rows] = isOpen ? [100, 25] : [0, 0];
  const { binsMost, rowsMost, folded } = detail;
  const stage = chartSeriesOf(whole, { binsMost: Math.max(columns, binsMost), rowsMost: Math.max(rows, rowsMost) });
  const { overTime, others, said } = chartsOfStage(stage, run.claims, id, isOpen ? "all" : folded);
  const sentences = said.map(({ title, finding }) => {
    return html`<p class="said-only"><span class="what">${title}</span> ${prose(finding)}</p>`;
  });
  const beside = html`<div class="beside">${others.map((chart) => chartFigure(chart))}</div>`;
  const after = html`${sentences}${others.length > 0 && beside}`;
  const about = { id, isOpen, name: whole.stage, calls: sumOf(whole.offered), before: faultFacts(stage, run), after };
  return chartsBlock(about, stage, overTime);
};

/** The worst verdict of the *must* claims of a stage; `null` if there are none. */
const verdictOfStage = ({ claims }: RunDocument, stage: string): ClaimVerdict | null => {
  const own = new Set(claims.filter((one) => one.stage === stage && one.level === "must").map((one) => one.verdict));
  return VERDICTS.find((verdict) => own.has(verdict) && (verdict !== "skipped" || own.size === 1)) ?? null;
};

export const isDrawn =
  (stages: readonly StageSummary[]) =>
  (one: StageSeries): boolean =>
    sumOf(one.offered) >= CALLS_LEAST && stages.find(({ name }) => name === one.stage)?.driver !== "verify";

/** `note`: a sentence about the size of the page. Returns `null` if no stage is worth drawing. */
const chartsSection = (run: RunDocument, series: Series, detail: Detail, note: string | null): Markup | null => {
  const drawn = series.stages.filter(isDrawn(run.stages));
  if (drawn.length === 0) return null;
  const left = series.stages.filter((one) => !drawn.includes(one)).map(({ stage }) => stage);
  const names = html`<p class="small muted">Not drawn: ${left.join(", ")} (single calls, or fewer than ${CALLS_LEAST}).</p>`;
  const needsALook = ({ stage }: StageSeries) => ["fail", "inconclusive"].includes(verdictOfStage(run, stage) ?? "");
  const open = drawn.length <= OPEN_MOST ? drawn : drawn.filter(needsALook).slice(0, NEED_MOST);
  const blocks = drawn.map((one, i) => stageBlock(one, run, detail, `c${i}`, open.includes(one)));
  const lead = note && html`<p class="small muted">${note}</p>`;
  return card("courses", "Over time", lead, blocks, left.length > 0 && names);
};

const FIRST_MAX = 5;

const banner = (run: RunDocument): Markup => {
  const { verdict } = run;
  const musts = claimsInOrder(run.claims).filter(({ level }) => level === "must");
  const open = verdict === "pass" ? [] : musts.filter((claim) => claim.verdict === verdict);
  const leads = {
    pass: whyOf(run),
    fail: `${open.length} of ${musts.length} required claims ${open.length === 1 ? "is" : "are"} broken.`,
    inconclusive: "No required claim was seen broken, but too little is known to call it a pass.",
  };
  const first = open.slice(0, FIRST_MAX).map((c) => html`<li><code>${c.id}</code>: ${prose(c.reason)}</li>`);
  // A failed run's reason is the list; an inconclusive run may have others (something required is absent).
  const hasReason = verdict === "inconclusive" || (verdict === "fail" && open.length === 0);
  const next = open.slice(0, 1).map(({ id, replay }) => {
    const again = replay !== "" && html`; <code>${replay}</code> plays it again`;
    return html`<p>Next: <code>npx floodgate explain ${id}</code> says what it means and what usually breaks it${again}.</p>`;
  });
  const left = open.length - FIRST_MAX;
  const more = left > 0 && html`<li><a href="#claims">and ${left} more</a></li>`;
  return html`<section class="banner ${verdict}"><div class="verdict">${sign(verdict, 40)}<h1>${verdict}</h1></div>
<p class="lead">${prose(leads[verdict])}</p>${hasReason && html`<p>${prose(whyOf(run))}</p>`}${open.length > 0 && html`<ul>${first}${more}</ul>`}${next}</section>`;
};

/** Each figure links to its details, each word to its definition. */
const tiles = (run: RunDocument): Markup => {
  const counts = countByVerdict(run.claims);
  const { outcomes_seen: seen, outcomes_of: all } = run.coverage;
  const tile = (href: string | null, big: string | Markup, id: string, word = id): Markup =>
    html`<div class="tile">${href === null ? html`<span class="big">${big}</span>` : html`<a class="big" href="#${href}">${big}</a>`}<span class="small">${defined(id, word)}</span></div>`;
  const verdicts = VERDICTS.map((verdict) => {
    const href = counts[verdict] === 0 ? null : `claims-${verdict}`;
    return tile(href, html`${sign(verdict, 20)} ${counts[verdict]}`, verdict);
  });
  const sent = sumOf(run.stages.map((stage) => stage.calls.sent));
  const calls = tile("stages", count(sent), "calls");
  const outcomes = tile("not-judged", `${seen} of ${all}`, "outcomes", "outcomes seen");
  return html`<div class="tiles">${verdicts}${calls}${outcomes}${tile("environment", duration(run.duration_ms), "duration")}</div>`;
};

// The headline: a gate's ratios, a capacity search's rates, a strip of many stages, or the stage that matters most.

/** With more stages than this the headline is a strip of all of them. */
const STAGES_MOST = 12;
const HEADLINE_DETAIL = { binsMost: 120, rowsMost: 25 };
const SMALL_DETAIL = { binsMost: 32, rowsMost: 1 };
const SMALL_HEIGHT = 64;

const shedIn = (series: StageSeries): number => sumOf(countsOf(series, "shed"));

/** The chart of one stage, failed or open if there is one, else with most sheds; ids as in `chartsSection`. */
const oneStage = (run: RunDocument, drawn: readonly StageSeries[]): Markup => {
  const verdicts = drawn.map(({ stage }) => verdictOfStage(run, stage));
  const sheds = drawn.map(shedIn);
  const by = sheds.some((n) => n > 0) ? sheds : drawn.map(({ offered }) => sumOf(offered));
  const order = [verdicts.indexOf("fail"), verdicts.indexOf("inconclusive"), by.indexOf(Math.max(...by))];
  const at = order.find((i) => i >= 0) ?? 0;
  const [series, verdict] = [drawn[at] as StageSeries, verdicts[at] ?? null];
  // The stage's purpose; an experiment is no story, its name says what it breaks.
  const story = STORIES.get(series.stage);
  const played = story && html`<p class="muted">${story.purpose}.</p>`;
  const chart = chartFigure(loadChart(chartSeriesOf(series, HEADLINE_DETAIL), "headline-load"));
  return html`<h2>${verdict && sign(verdict, 20)} <a href="#c${at}">${series.stage}</a></h2>${played}${chart}`;
};

const small = (run: RunDocument, whole: StageSeries, at: number): Markup => {
  const stage = chartSeriesOf(whole, SMALL_DETAIL);
  const { series, binS } = stage;
  const y = scaleLinear([0, Math.max(...series.offered) / binS], [SMALL_HEIGHT, 2]);
  const rates = series.offered.map((n) => n / binS);
  const verdict = verdictOfStage(run, whole.stage);
  const calls = sumOf(whole.offered);
  const shed = shedIn(whole);
  const words = `${count(calls)} calls${shed === 0 ? "" : `, ${share(shed, calls)} shed`}`;
  return html`<li><a href="#c${at}">${verdict && sign(verdict, 14)} <span>${whole.stage}</span><svg class="plot" role="img" aria-label="${whole.stage}: ${verdict ?? "not judged"}, ${words}" width="100%" height="${SMALL_HEIGHT}" viewBox="0 0 ${WIDTH} ${SMALL_HEIGHT}" preserveAspectRatio="none" fill="none" stroke="currentColor">${layerAreas(stage, y, SMALL_HEIGHT).map(layerShape)}${bandShapes(stage, SMALL_HEIGHT)}<path class="line" d="${stepPath(stage, rates, y)}"/></svg><span class="small muted">${words}</span></a></li>`;
};

const strip = (run: RunDocument, drawn: readonly StageSeries[]): Markup =>
  html`<h2>Every stage</h2><p class="small muted">A line shows what was offered, each on a scale of its own; the layers beneath show what came of it; a band is a fault.</p><ul class="strip">${drawn.map((one, at) => small(run, one, at))}</ul>`;

/** What a run found besides the calls of its stages: `gate.json`, `capacity.json`, `curve.json`, unchecked. */
export type Found = { gate?: unknown; capacity?: unknown; curve?: unknown };

/** `hasCurve`: a run of few stages needs no headline, because the section of the curve follows. */
const headline = (run: RunDocument, series: Series, found: Found, hasCurve: boolean): Markup | null => {
  const charts = [gateChart(found.gate, "gate-ratios"), ...capacityCharts(found.capacity, "capacity-rates")];
  const figures = charts.flatMap((chart) => (chart === null ? [] : chartFigure(chart)));
  const section = (body: Markup | readonly Markup[]) => html`<section class="card" id="headline">${body}</section>`;
  if (figures.length > 0) return section(figures);
  const drawn = series.stages.filter(isDrawn(run.stages));
  if (drawn.length > STAGES_MOST) return section(strip(run, drawn));
  return drawn.length === 0 || hasCurve ? null : section(oneStage(run, drawn));
};

export type Earlier = Pick<RunDocument, "id" | "started_at" | "verdict"> & {
  claims: readonly Pick<Claim, "id" | "verdict" | "level">[];
};

const CHANGED_MOST = 8;
const CHANGES: readonly (readonly [ClaimVerdict, string])[] = [
  ["fail", "now fail"],
  ["inconclusive", "can no longer be decided"],
  ["skipped", "are no longer judged"],
  ["pass", "now pass"],
];

/** What changed since the run before, of the same profile on the same target: claims by their verdict then and now. */
const changesSection = (run: RunDocument, earlier: Earlier | undefined): Markup | null => {
  if (earlier === undefined) return null;
  const was = new Map(earlier.claims.map(({ id, verdict }) => [id, verdict]));
  const changes = CHANGES.flatMap(([verdict, words]) => {
    const changed = run.claims.filter(
      (claim) => claim.verdict === verdict && (was.get(claim.id) ?? verdict) !== verdict,
    );
    if (changed.length === 0) return [];
    const shown = changed
      .slice(0, CHANGED_MOST)
      .map(({ id }, i) => html`${i > 0 && ", "}<code>${id}</code> (was ${was.get(id)})`);
    const more = changed.length - shown.length;
    return html`<li><b>${counted(changed.length, "claim")} ${words}:</b> ${shown}${more > 0 && ` and ${more} more`}</li>`;
  });
  const fresh = run.claims.filter(({ id }) => !was.has(id)).length;
  const which = html`<p class="muted"><code>${earlier.id}</code>, ${moment(earlier.started_at)}: ${earlier.verdict}</p>`;
  const list = changes.length === 0 ? html`<p>No claim has another verdict.</p>` : html`<ul>${changes}</ul>`;
  const others = html`<p class="muted">${counted(fresh, "claim")} that run did not have.</p>`;
  return card("changes", "Since the run before", which, list, fresh > 0 && others);
};

const MEGABYTE = 1_048_576;
/** A page of few stages has to open on a phone; a page of a night may be larger. */
const bytesMost = (stages: number): number => (stages <= 12 ? 500_000 : MEGABYTE);
const BYTES_AT_ALL = 3 * MEGABYTE;

/** From the finest to the coarsest; a page takes the first that makes it small enough. */
const DETAILS: readonly Detail[] = [
  { binsMost: 300, rowsMost: 60, folded: "all" },
  { binsMost: 160, rowsMost: 40, folded: "all" },
  { binsMost: 100, rowsMost: 25, folded: "all" },
  { binsMost: 100, rowsMost: 25, folded: "main" },
  { binsMost: 60, rowsMost: 15, folded: "main" },
  { binsMost: 40, rowsMost: 8, folded: "least" },
  { binsMost: 24, rowsMost: 4, folded: "least" },
];

/** Says what is coarser or left out, so that a reader can look elsewhere; `null` for the finest detail. */
const noteOf = (detail: Detail): string | null => {
  if (detail === DETAILS[0]) return null;
  const generator = detail.folded === "least" ? "the generator, " : "";
  const left = `; stages that start folded have no charts of ${generator}first events, gaps, CPU, percentiles and organizations`;
  return `To keep this page small, bins of long stages are longer, and their tables have fewer rows${detail.folded === "all" ? "" : left}. series.json has all of it.`;
};
const NO_CHARTS = "The charts were left out: with them this page would be above 3 MB. series.json has what they show.";

/** A whole HTML document: at most `bytesMost` if coarser charts achieve that; without charts if it were above 3 MB. */
export const htmlReport = (run: RunDocument, series?: Series, found: Found & { earlier?: Earlier } = {}): string => {
  const curve = curveSection(found.curve, run.claims);
  const first = series === undefined ? null : headline(run, series, found, curve !== null);
  const page = (charts: Markup | null, chartOf: ChartOf = () => undefined): string => {
    const sections = Object.entries({
      curve: ["Shedding by load", curve],
      changes: ["Since the run before", changesSection(run, found.earlier)],
      claims: ["Not a pass", openClaimsSection(run, chartOf)],
      courses: ["Over time", charts],
      "not-judged": ["Not judged", facts.notJudgedSection(run)],
      stages: ["Stages", facts.stagesSection(run)],
      faults: ["Faults", facts.faultsSection(run)],
      measurements: ["Measurements", facts.measurementsSection(run)],
      held: ["What held", passedClaimsSection(run)],
      environment: ["Where it ran", facts.environmentSection(run)],
      definitions: ["Words", definitionsSection(run)],
    } as const).filter(([, [, section]]) => section !== null);
    const title = `${run.verdict}: ${oneLine(run.profile)} on ${oneLine(run.target.name)}, seed ${run.seed}`;
    const body = html`<header><p class="brand">Floodgate</p><p class="muted">${run.profile} on ${run.target.name}, seed ${run.seed}, ${moment(run.started_at)}<br><code>${run.id}</code></p></header>
${banner(run)}
${first}
${tiles(run)}
<nav aria-label="Contents">${sections.map(([id, [name]]) => html`<a href="#${id}">${name}</a> `)}</nav>
${sections.map(([, [, section]]) => section)}
<footer class="muted small">Times of a shared machine decide nothing by themselves. The same facts for programs: run.json, series.json, junit.xml, ctrf.json, metrics.prom; every call: history.ndjson.</footer>`;
    return pageShell(title, body, charts !== null);
  };
  if (series === undefined) return page(null);
  const drawn = series.stages.filter(isDrawn(run.stages)).map(({ stage }) => stage);
  const chartOf: ChartOf = (stage) => (drawn.includes(stage) ? `c${drawn.indexOf(stage)}` : undefined);
  const most = bytesMost(drawn.length);
  let text = "";
  for (let i = 0; i < DETAILS.length; ) {
    const detail = DETAILS[i] as Detail;
    const charts = chartsSection(run, series, detail, noteOf(detail));
    text = page(charts, chartOf);
    const bytes = utf8Bytes(text);
    if (charts === null || bytes <= most) return text;
    // If the page is far too large, the next detail is skipped, because drawing takes time; the last one never is.
    const isNearEnd = i >= DETAILS.length - 2;
    i += bytes > 2 * most && !isNearEnd ? 2 : 1;
  }
  return utf8Bytes(text) <= BYTES_AT_ALL ? text : page(card("courses", "Over time", html`<p>${NO_CHARTS}</p>`));
};

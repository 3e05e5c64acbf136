/** The claims of the page: one table for each verdict, failures first, with what it takes to look again. */
import { type Claim, type ClaimVerdict, type RunDocument, ruleOf } from "../../history/run-document.ts";
import { claimsInOrder } from "../verdict.ts";
import { defined } from "./definitions.ts";
import { card, codes, facts, folded, html, type Markup, prose, table, words } from "./markup.ts";

/** More passes than this start folded. */
const OPEN_PASSES = 12;

/** Skipped claims stand under "What is not judged" (html-facts.ts). */
const MEANING = {
  fail: "Seen broken. A failed must fails the run; a failed should or info does not.",
  inconclusive: "Tried, and could not be decided. Not a pass.",
  pass: "Held in all that was seen.",
};

/** Returns the id of a stage's block of charts, if the page has one. */
export type ChartOf = (stage: string) => string | undefined;

/** Each verdict has a sign with its own shape, beside the word and the colour. */
const SHAPES: Readonly<Record<ClaimVerdict, string>> = {
  fail: "M4 4L12 12M12 4L4 12",
  inconclusive: "M5 6a3 3 0 1 1 4.2 2.7C8.3 9.2 8 9.6 8 10.4M8 12.6v.9",
  skipped: "M3.5 8H12.5",
  pass: "M3 8.5L6.5 12L13 4.5",
};

export const sign = (verdict: ClaimVerdict, size: number): Markup =>
  html`<svg class="sign ${verdict}" width="${size}" height="${size}" viewBox="0 0 16 16" aria-hidden="true"><path d="${SHAPES[verdict]}"/></svg>`;

export const badge = (verdict: ClaimVerdict): Markup =>
  html`<span class="badge ${verdict}">${sign(verdict, 14)} ${verdict}</span>`;

const command = (text: string): Markup => html`<code class="replay">${words(text)}</code>`;

const why = ({ verdict, reason, expected, got }: Claim): Markup => {
  const both = facts("", Object.entries({ expected, got }));
  return verdict === "pass"
    ? html`${prose(reason)}${folded("expected, got", both)}`
    : html`<p class="reason">${prose(reason)}</p>${both}`;
};

const again = ({ evidence, replay, stage, verdict }: Claim, chart: string | undefined): Markup => {
  const there = Object.entries({
    ...(evidence.length > 0 && { evidence: codes(evidence) }),
    ...(replay !== "" && { replay: command(replay) }),
  });
  const seen = chart && html`<a href="#${chart}">Charts of ${stage}</a>`;
  if (there.length === 0 && !seen) return html`<span class="muted">none</span>`;
  const body = there.map(([name, what]) => html`<div class="small">${name}</div>${what}`);
  return verdict === "pass" ? folded(there.map(([name]) => name).join(", "), body) : html`${seen}${body}`;
};

const rowOf = (id: string, claims: readonly Claim[], what: Markup, chart?: string): Markup => {
  const [first] = claims as [Claim];
  const spec = [...new Set(claims.flatMap((claim) => claim.spec))].sort((a, b) => a - b);
  const items = html`<span class="muted">, ${defined("item", "items")} ${spec.join(", ")}</span>`;
  return html`<tr><td>${badge(first.verdict)}${claims.length > 1 && ` × ${claims.length}`}</td>
<td><code class="id">${id}</code><div class="small">${defined("level", first.level)}${spec.length > 0 && items}</div></td>
<td>${what}</td><td>${again(first, chart)}</td></tr>`;
};

/** Passes of one rule that differ only by their stage share a row, which lists what was seen in each stage. */
const rows = (claims: readonly Claim[], chartOf: ChartOf): Markup[] => {
  const groups = Map.groupBy(claims.entries(), ([i, claim]) => {
    const { verdict, level, expected, replay, evidence } = claim;
    const isAlike = verdict === "pass" && evidence.length === 0;
    return JSON.stringify(isAlike ? [ruleOf(claim), level, expected, replay] : i);
  });
  return [...groups.values()].map((entries) => {
    const list = entries.map(([, claim]) => claim);
    const [first] = list as [Claim];
    if (list.length === 1) return rowOf(first.id, list, why(first), chartOf(first.stage));
    const stages = list.map(({ stage, reason, got }) => {
      return html`<li><code>${stage}</code> ${prose(reason)}${got !== "as expected" && prose(`; got: ${got}`)}</li>`;
    });
    const what = html`${prose(first.expected)}${folded(`in ${list.length} stages`, html`<ul class="held">${stages}</ul>`)}`;
    return rowOf(ruleOf(first), list, what);
  });
};

const HEADS = ["Verdict", "Claim", "Why, expected, got", "Evidence, replay"];

const groupsOf = (run: RunDocument, verdicts: readonly (keyof typeof MEANING)[], chartOf: ChartOf): Markup[] =>
  verdicts.flatMap((verdict) => {
    const claims = claimsInOrder(run.claims.filter((claim) => claim.verdict === verdict));
    if (claims.length === 0) return [];
    const all = table("claims", HEADS, rows(claims, chartOf));
    const isFolded = verdict === "pass" && claims.length > OPEN_PASSES;
    return html`<h3 id="claims-${verdict}">${sign(verdict, 20)} ${verdict} <span class="muted">(${claims.length})</span></h3><p class="muted">${MEANING[verdict]}</p>${isFolded ? folded(`Show all ${claims.length}`, all) : all}`;
  });

export const openClaimsSection = (run: RunDocument, chartOf: ChartOf): Markup | null => {
  const groups = groupsOf(run, ["fail", "inconclusive"], chartOf);
  return groups.length === 0 ? null : card("claims", "Not a pass", groups);
};

export const passedClaimsSection = (run: RunDocument): Markup | null => {
  if (run.claims.length === 0)
    return html`<section class="card" id="held"><p>No claim was made: nothing was judged.</p></section>`;
  const groups = groupsOf(run, ["pass"], () => undefined);
  return groups.length === 0 ? null : card("held", "What held", groups);
};

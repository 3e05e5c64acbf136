/** The claims of the page: one table for each verdict, what needs attention first, with all that is needed to look again. */
import type { Claim, ClaimVerdict, RunDocument } from "../../history/run-document.ts";
import { claimsInOrder } from "../claim-order.ts";
import { defined } from "./definitions.ts";
import { html, type Markup } from "./markup.ts";

/** More passes than this start folded. */
const OPEN_PASSES = 12;

/** What was skipped stands under "What is not judged" (html-facts.ts). */
type Shown = Exclude<ClaimVerdict, "skipped">;

const MEANING: Readonly<Record<Shown, string>> = {
  fail: "Seen broken. A failed must fails the run; a failed should or info does not.",
  inconclusive: "Tried, and could not be decided. Not a pass.",
  pass: "Held in all that was seen.",
};

/** The id of the block of charts of a stage, where the page has one. */
export type ChartOf = (stage: string) => string | undefined;

/** A sign of its own shape for each verdict, beside the word and the colour. */
const SHAPES: Readonly<Record<ClaimVerdict, string>> = {
  fail: "M4 4L12 12M12 4L4 12",
  inconclusive: "M5 6a3 3 0 1 1 4.2 2.7C8.3 9.2 8 9.6 8 10.4M8 12.6v.9",
  skipped: "M3.5 8H12.5",
  pass: "M3 8.5L6.5 12L13 4.5",
};

/** `size` in CSS pixels. */
export const sign = (verdict: ClaimVerdict, size: number): Markup =>
  html`<svg class="sign ${verdict}" width="${size}" height="${size}" viewBox="0 0 16 16" aria-hidden="true"><path d="${SHAPES[verdict]}"/></svg>`;

export const badge = (verdict: ClaimVerdict): Markup =>
  html`<span class="badge ${verdict}">${sign(verdict, 14)} ${verdict}</span>`;

const list = (texts: readonly string[]): Markup =>
  html`<ul class="ids">${texts.map((t) => html`<li><code>${t}</code></li>`)}</ul>`;

/** Breaks between arguments only, not at the hyphens in them. */
const command = (text: string): Markup => {
  const whole = (argument: string) => (argument.includes("-") ? html`<span>${argument}</span> ` : `${argument} `);
  return html`<code class="replay">${text.split(" ").map(whole)}</code>`;
};

const why = (claim: Claim): Markup => {
  const facts = html`<dl class="facts"><dt>expected</dt><dd>${claim.expected}</dd><dt>got</dt><dd>${claim.got}</dd></dl>`;
  if (claim.verdict === "pass") {
    return html`${claim.reason}<details><summary>expected, got</summary>${facts}</details>`;
  }
  return html`<p class="reason">${claim.reason}</p>${facts}`;
};

const again = (claim: Claim, chart: string | undefined): Markup => {
  const evidence = claim.evidence.length === 0 ? null : html`<div class="small">evidence</div>${list(claim.evidence)}`;
  const replay = claim.replay === "" ? null : html`<div class="small">replay</div>${command(claim.replay)}`;
  const seen = chart === undefined ? null : html`<a href="#${chart}">Charts of ${claim.stage}</a>`;
  if (evidence === null && replay === null && seen === null) return html`<span class="muted">none</span>`;
  return claim.verdict === "pass"
    ? html`<details><summary>${evidence === null ? "replay" : replay === null ? "evidence" : "evidence, replay"}</summary>${evidence}${replay}</details>`
    : html`${seen}${evidence}${replay}`;
};

const row = (claim: Claim, chart?: string): Markup => {
  const spec =
    claim.spec.length === 0
      ? null
      : html`<span class="muted">, ${defined("item", "items")} ${claim.spec.join(", ")}</span>`;
  return html`<tr><td>${badge(claim.verdict)}</td>
<td><code class="id">${claim.id}</code><div class="small">${defined("level", claim.level)}${spec}</div></td>
<td>${why(claim)}</td><td>${again(claim, chart)}</td></tr>`;
};

/** Of a claim that is made of several stages: what it is called without its stage. */
const nameOf = ({ id, stage }: Claim): string =>
  stage !== "" && id.endsWith(`/${stage}`) ? id.slice(0, -stage.length - 1) : id;

const AS_EXPECTED = "as expected";

/** Passes of one rule, which differ by their stage alone: said once, with what was seen in each. */
const passesRow = (claims: readonly Claim[]): Markup => {
  const [first] = claims as [Claim];
  const spec = [...new Set(claims.flatMap((claim) => claim.spec))].sort((a, b) => a - b);
  const items =
    spec.length === 0 ? null : html`<span class="muted">, ${defined("item", "items")} ${spec.join(", ")}</span>`;
  const stages = claims.map(
    ({ stage, reason, got }) =>
      html`<li><code>${stage}</code> ${reason}${got === AS_EXPECTED ? "" : `; got: ${got}`}</li>`,
  );
  return html`<tr><td>${badge("pass")} × ${claims.length}</td>
<td><code class="id">${nameOf(first)}</code><div class="small">${defined("level", first.level)}${items}</div></td>
<td>${first.expected}<details><summary>in ${claims.length} stages</summary><ul class="held">${stages}</ul></details></td><td>${again(first, undefined)}</td></tr>`;
};

/** Claims that share a row: passes of one rule without evidence of their own. */
const rows = (claims: readonly Claim[], chartOf: ChartOf): Markup[] => {
  const groups = new Map<string, Claim[]>();
  for (const [i, claim] of claims.entries()) {
    const { verdict, level, expected, replay, evidence } = claim;
    const isAlike = verdict === "pass" && evidence.length === 0;
    const key = JSON.stringify(isAlike ? [nameOf(claim), level, expected, replay] : i);
    groups.set(key, [...(groups.get(key) ?? []), claim]);
  }
  return [...groups.values()].map((list) => {
    const [first, ...others] = list as [Claim, ...Claim[]];
    return others.length === 0 ? row(first, chartOf(first.stage)) : passesRow(list);
  });
};

const table = (claims: readonly Claim[], chartOf: ChartOf): Markup =>
  html`<table class="claims"><thead><tr><th>Verdict</th><th>Claim</th><th>Why, expected, got</th><th>Evidence, replay</th></tr></thead><tbody>${rows(claims, chartOf)}</tbody></table>`;

const group = (verdict: Shown, claims: readonly Claim[], chartOf: ChartOf): Markup | null => {
  if (claims.length === 0) return null;
  const title = html`${sign(verdict, 20)} ${verdict} <span class="muted">(${claims.length})</span>`;
  const head = html`<h3 id="claims-${verdict}">${title}</h3><p class="muted">${MEANING[verdict]}</p>`;
  const body =
    verdict === "pass" && claims.length > OPEN_PASSES
      ? html`<details><summary>Show all ${claims.length}</summary>${table(claims, chartOf)}</details>`
      : table(claims, chartOf);
  return html`${head}${body}`;
};

const groupsOf = (run: RunDocument, verdicts: readonly Shown[], chartOf: ChartOf): (Markup | null)[] => {
  const ordered = claimsInOrder(run.claims);
  return verdicts.map((verdict) =>
    group(
      verdict,
      ordered.filter((c) => c.verdict === verdict),
      chartOf,
    ),
  );
};

/** What needs a look: claims that failed or could not be decided. `null` where there are none. */
export const openClaimsSection = (run: RunDocument, chartOf: ChartOf): Markup | null => {
  const isOpen = ({ verdict }: Claim): boolean => verdict === "fail" || verdict === "inconclusive";
  if (!run.claims.some(isOpen)) return null;
  return html`<section class="card" id="claims"><h2>Not a pass</h2>${groupsOf(run, ["fail", "inconclusive"], chartOf)}</section>`;
};

export const passedClaimsSection = (run: RunDocument): Markup | null => {
  if (run.claims.length === 0)
    return html`<section class="card" id="held"><p>No claim was made: nothing was judged.</p></section>`;
  if (!run.claims.some(({ verdict }) => verdict === "pass")) return null;
  return html`<section class="card" id="held"><h2>What held</h2>${groupsOf(run, ["pass"], () => undefined)}</section>`;
};

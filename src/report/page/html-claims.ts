/** The claims of the page: one table for each verdict, what needs attention first, with all that is needed to look again. */
import type { Claim, ClaimVerdict, RunDocument } from "../../history/run-document.ts";
import { claimsInOrder, VERDICTS } from "../claim-order.ts";
import { html, type Markup } from "./markup.ts";

/** More passes than this start folded. */
const OPEN_PASSES = 12;

const MEANING: Readonly<Record<ClaimVerdict, string>> = {
  fail: "Seen broken. A failed must fails the run; a failed should or info does not.",
  inconclusive: "Tried, and could not be decided. Not a pass.",
  skipped: "Not tried, because something was missing. Not a pass.",
  pass: "Held in all that was seen.",
};

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
  const reason = claim.verdict === "skipped" ? claim.reason.replace(/^skipped: */, "missing: ") : claim.reason;
  const facts = html`<dl class="facts"><dt>expected</dt><dd>${claim.expected}</dd><dt>got</dt><dd>${claim.got}</dd></dl>`;
  if (claim.verdict === "pass" || claim.verdict === "skipped") {
    return html`${reason}<details><summary>expected, got</summary>${facts}</details>`;
  }
  return html`<p class="reason">${reason}</p>${facts}`;
};

const again = (claim: Claim): Markup => {
  const evidence = claim.evidence.length === 0 ? null : html`<div class="small">evidence</div>${list(claim.evidence)}`;
  const replay = claim.replay === "" ? null : html`<div class="small">replay</div>${command(claim.replay)}`;
  if (evidence === null && replay === null) return html`<span class="muted">none</span>`;
  return claim.verdict === "pass" || claim.verdict === "skipped"
    ? html`<details><summary>${evidence === null ? "replay" : replay === null ? "evidence" : "evidence, replay"}</summary>${evidence}${replay}</details>`
    : html`${evidence}${replay}`;
};

const row = (claim: Claim): Markup => {
  const spec = claim.spec.length === 0 ? null : html`<span class="muted">, items ${claim.spec.join(", ")}</span>`;
  return html`<tr><td>${badge(claim.verdict)}</td>
<td><code class="id">${claim.id}</code><div class="small"><b>${claim.level}</b>${spec}</div></td>
<td>${why(claim)}</td><td>${again(claim)}</td></tr>`;
};

/** Of a claim that is made of several stages: what it is called without its stage. */
const nameOf = ({ id, stage }: Claim): string =>
  stage !== "" && id.endsWith(`/${stage}`) ? id.slice(0, -stage.length - 1) : id;

const AS_EXPECTED = "as expected";

/** Passes of one rule, which differ by their stage alone: said once, with what was seen in each. */
const passesRow = (claims: readonly Claim[]): Markup => {
  const [first] = claims as [Claim];
  const spec = [...new Set(claims.flatMap((claim) => claim.spec))].sort((a, b) => a - b);
  const items = spec.length === 0 ? null : html`<span class="muted">, items ${spec.join(", ")}</span>`;
  const stages = claims.map(
    ({ stage, reason, got }) =>
      html`<li><code>${stage}</code> ${reason}${got === AS_EXPECTED ? "" : `; got: ${got}`}</li>`,
  );
  return html`<tr><td>${badge("pass")} × ${claims.length}</td>
<td><code class="id">${nameOf(first)}</code><div class="small"><b>${first.level}</b>${items}</div></td>
<td>${first.expected}<details><summary>in ${claims.length} stages</summary><ul class="held">${stages}</ul></details></td><td>${again(first)}</td></tr>`;
};

/** Claims that share a row: passes of one rule without evidence of their own. */
const rows = (claims: readonly Claim[]): Markup[] => {
  const groups = new Map<string, Claim[]>();
  for (const [i, claim] of claims.entries()) {
    const { verdict, level, expected, replay, evidence } = claim;
    const isAlike = verdict === "pass" && evidence.length === 0;
    const key = JSON.stringify(isAlike ? [nameOf(claim), level, expected, replay] : i);
    groups.set(key, [...(groups.get(key) ?? []), claim]);
  }
  return [...groups.values()].map((list) => (list.length === 1 ? row(list[0] as Claim) : passesRow(list)));
};

const table = (claims: readonly Claim[]): Markup =>
  html`<table class="claims"><thead><tr><th>Verdict</th><th>Claim</th><th>Why, expected, got</th><th>Evidence, replay</th></tr></thead><tbody>${rows(claims)}</tbody></table>`;

const group = (verdict: ClaimVerdict, claims: readonly Claim[]): Markup | null => {
  if (claims.length === 0) return null;
  const title = html`${sign(verdict, 20)} ${verdict} <span class="muted">(${claims.length})</span>`;
  const head = html`<h3 id="claims-${verdict}">${title}</h3><p class="muted">${MEANING[verdict]}</p>`;
  const body =
    verdict === "pass" && claims.length > OPEN_PASSES
      ? html`<details><summary>Show all ${claims.length}</summary>${table(claims)}</details>`
      : table(claims);
  return html`${head}${body}`;
};

export const claimsSection = (run: RunDocument): Markup => {
  const ordered = claimsInOrder(run.claims);
  const groups = VERDICTS.map((verdict) =>
    group(
      verdict,
      ordered.filter((c) => c.verdict === verdict),
    ),
  );
  const body = ordered.length === 0 ? html`<p>No claim was made: nothing was judged.</p>` : groups;
  return html`<section class="card" id="claims"><h2>Claims</h2>${body}</section>`;
};

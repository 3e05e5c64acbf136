/** What is different from the run before, of the same profile on the same target: claims by their verdict then and now. */
import type { Claim, ClaimVerdict, RunDocument } from "../../history/run-document.ts";
import { counted, moment } from "../figures.ts";
import { card, html, type Markup } from "./markup.ts";

export type Earlier = Pick<RunDocument, "id" | "started_at" | "verdict"> & {
  claims: readonly Pick<Claim, "id" | "verdict" | "level">[];
};

const SHOWN_MOST = 8;
const WORDS: readonly (readonly [ClaimVerdict, string])[] = [
  ["fail", "now fail"],
  ["inconclusive", "can no longer be decided"],
  ["skipped", "are no longer judged"],
  ["pass", "now pass"],
];

const named = (changed: readonly { id: string; was: ClaimVerdict }[]): Markup => {
  const shown = changed
    .slice(0, SHOWN_MOST)
    .map(({ id, was }, i) => html`${i === 0 ? "" : ", "}<code>${id}</code> (was ${was})`);
  const more = changed.length - shown.length;
  return html`${shown}${more > 0 ? ` and ${more} more` : ""}`;
};

export const changesSection = (run: RunDocument, earlier: Earlier | undefined): Markup | null => {
  if (earlier === undefined) return null;
  const was = new Map(earlier.claims.map(({ id, verdict }) => [id, verdict]));
  const changes = WORDS.flatMap(([verdict, words]) => {
    const changed = run.claims.flatMap((claim) => {
      const before = was.get(claim.id);
      return claim.verdict === verdict && before !== undefined && before !== verdict
        ? [{ id: claim.id, was: before }]
        : [];
    });
    return changed.length === 0
      ? []
      : [html`<li><b>${counted(changed.length, "claim")} ${words}:</b> ${named(changed)}</li>`];
  });
  const fresh = run.claims.filter(({ id }) => !was.has(id)).length;
  return card(
    "changes",
    "Since the run before",
    html`<p class="muted"><code>${earlier.id}</code>, ${moment(earlier.started_at)}: ${earlier.verdict}</p>`,
    changes.length === 0 ? html`<p>No claim has another verdict.</p>` : html`<ul>${changes}</ul>`,
    fresh === 0 ? null : html`<p class="muted">${counted(fresh, "claim")} that run did not have.</p>`,
  );
};

/** In which order claims are listed, and how they are counted and grouped. */
import type { Claim, ClaimVerdict, Level } from "../history/run-document.ts";
import { known } from "../history/statistics/counts.ts";
import { oneLine } from "./escape.ts";

export const VERDICTS: readonly ClaimVerdict[] = ["fail", "inconclusive", "skipped", "pass"];
export const LEVELS: readonly Level[] = ["must", "should", "info"];

/** What the other claims of a stage rest on: that the API answered at all. */
const comesFirst = ({ id, verdict }: Claim): boolean =>
  id.startsWith("answered/") && (verdict === "fail" || verdict === "inconclusive");

/** That the API did not answer comes first; then by verdict, by level, by id. */
export const claimsInOrder = (claims: readonly Claim[]): Claim[] =>
  [...claims].sort(
    (a, b) =>
      Number(comesFirst(b)) - Number(comesFirst(a)) ||
      VERDICTS.indexOf(a.verdict) - VERDICTS.indexOf(b.verdict) ||
      LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level) ||
      (a.id < b.id ? -1 : a.id > b.id ? 1 : 0),
  );

/** In the order in which the first of each comes. */
export const groupedBy = <T>(all: Iterable<T>, keyOf: (one: T) => string): Map<string, T[]> => {
  const groups = new Map<string, T[]>();
  for (const one of all) known(groups, keyOf(one), () => []).push(one);
  return groups;
};

/** Why a claim is not judged, without the verdict with which the judges begin their sentence. */
export const bareReason = ({ reason }: Claim): string =>
  oneLine(reason).replace(/^skipped: */, "") || "no reason was given";

export const countByVerdict = (claims: readonly Claim[]): Record<ClaimVerdict, number> => {
  const counts = { fail: 0, inconclusive: 0, skipped: 0, pass: 0 };
  for (const claim of claims) counts[claim.verdict] += 1;
  return counts;
};

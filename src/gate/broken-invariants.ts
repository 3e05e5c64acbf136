/**
 * Judges invariants before any comparison, because they are exact on any machine. An invariant that fails in a block of
 * the head and in no block of the base is a regression, whatever the figures show.
 */
import { type Claim, claimOf } from "../history/run-document.ts";
import { SIDES, type Side } from "./block-plan.ts";

/** The claim of one invariant about one block. */
export type BlockFinding = { side: Side; pair: number; claim: Claim };

const nameOf = ({ id, stage }: Claim): string => (id.endsWith(`/${stage}`) ? id.slice(0, -stage.length - 1) : id);

/** Broken *musts* of a side, by name. */
const brokenOn = (findings: readonly BlockFinding[], of: Side): Map<string, Claim[]> => {
  const broken = findings.flatMap(({ side, claim }) =>
    side === of && claim.level === "must" && claim.verdict === "fail" ? [claim] : [],
  );
  return Map.groupBy(broken, nameOf);
};

type Broken = [id: string, claims: Claim[]];

const listed = (broken: readonly Broken[]): string =>
  broken.map(([id, { length }]) => `${id} (${length} block${length === 1 ? "" : "s"})`).join(", ");

export const brokenOnHeadAlone = (findings: readonly BlockFinding[]): Broken[] => {
  const base = brokenOn(findings, "base");
  return [...brokenOn(findings, "head")].filter(([id]) => !base.has(id));
};

export const invariantsClaim = (findings: readonly BlockFinding[], stage: string, replay: string): Claim => {
  const base = brokenOn(findings, "base");
  const onlyHead = brokenOnHeadAlone(findings);
  const onBoth = [...brokenOn(findings, "head")].filter(([id]) => base.has(id));
  const known = onBoth.length === 0 ? "" : `; broken on both, so not new: ${listed(onBoth)}`;
  const judged = (verdict: Claim["verdict"], reason: string, got: string, evidence: string[] = []): Claim => {
    const expected = "no invariant fails on the head that holds on the base";
    return claimOf({ id: "gate/invariants", stage, replay, expected, verdict, reason: reason + known, got, evidence });
  };
  if (onlyHead.length > 0) {
    const got = onlyHead.map(([id, [first]]) => `${id}: ${first?.reason}: ${first?.got}`).join("; ");
    const evidence = onlyHead.flatMap(([, [first]]) => first?.evidence ?? []).slice(0, 10);
    return judged("fail", `broken on the head alone: ${listed(onlyHead)}`, got, evidence);
  }
  // A side left too many calls unanswered if `answered` fails or is open in half of its blocks.
  const answered = findings.filter(({ claim }) => nameOf(claim) === "answered");
  const isOpen = ({ claim: { verdict } }: BlockFinding): boolean => verdict === "fail" || verdict === "inconclusive";
  const silent = SIDES.filter((of) => {
    const asked = answered.filter(({ side }) => side === of);
    return asked.some(isOpen) && 2 * asked.filter(isOpen).length >= asked.length;
  });
  if (silent.length > 0) {
    const first = answered.find(({ claim }) => claim.verdict !== "pass")?.claim;
    const what = `the ${silent.join(" and the ")} left too many calls unanswered to be compared`;
    return judged("inconclusive", `${what}: ${first?.reason ?? ""}`, first?.got ?? "", first?.evidence);
  }
  const held = findings.filter(({ side, claim }) => side === "head" && claim.verdict === "pass");
  const passed = [...new Set(held.map(({ claim }) => nameOf(claim)))].sort();
  return passed.length > 0 || onBoth.length > 0
    ? judged("pass", `${passed.length} invariants held on the head`, passed.join(", "))
    : judged("inconclusive", "no block could be judged by any invariant", "nothing to judge by");
};

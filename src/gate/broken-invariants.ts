/**
 * Invariants come before any comparison: they are exact on any machine. Every block is judged by those that fit; what fails on
 * the head and never on the base is new, and that is a regression whatever the figures say.
 */
import type { Claim } from "../history/run-document.ts";
import type { Side } from "./block-plan.ts";

/** One invariant on one block. */
export type BlockFinding = { side: Side; pair: number; claim: Claim };

type Broken = { id: string; pairs: number[]; first: Claim };

const nameOf = ({ id, stage }: Claim): string => (id.endsWith(`/${stage}`) ? id.slice(0, -stage.length - 1) : id);

/** Broken *musts* of a side, by name. */
const brokenOn = (findings: readonly BlockFinding[], of: Side): Map<string, Broken> => {
  const broken = new Map<string, Broken>();
  for (const { side, pair, claim } of findings) {
    if (side !== of || claim.level !== "must" || claim.verdict !== "fail") continue;
    const id = nameOf(claim);
    const known = broken.get(id);
    if (known === undefined) broken.set(id, { id, pairs: [pair], first: claim });
    else known.pairs.push(pair);
  }
  return broken;
};

const listed = (broken: readonly Broken[]): string =>
  broken.map(({ id, pairs }) => `${id} (${pairs.length} block${pairs.length === 1 ? "" : "s"})`).join(", ");

export const brokenOnHeadAlone = (findings: readonly BlockFinding[]): Broken[] => {
  const base = brokenOn(findings, "base");
  return [...brokenOn(findings, "head").values()].filter(({ id }) => !base.has(id));
};

/** Sides that left too many calls unanswered to be compared: `answered` fails or is open in half of their blocks. */
const notAnswering = (findings: readonly BlockFinding[]): Side[] =>
  (["base", "head"] as const).filter((of) => {
    const asked = findings.filter(({ side, claim }) => side === of && nameOf(claim) === "answered");
    const open = asked.filter(({ claim }) => claim.verdict === "fail" || claim.verdict === "inconclusive");
    return open.length > 0 && 2 * open.length >= asked.length;
  });

export const invariantsClaim = (findings: readonly BlockFinding[], stage: string, replay: string): Claim => {
  const [base, head] = [brokenOn(findings, "base"), brokenOn(findings, "head")];
  const onlyHead = brokenOnHeadAlone(findings);
  const onBoth = [...head.values()].filter(({ id }) => base.has(id));
  const passed = new Set(
    findings.flatMap(({ side, claim }) => (side === "head" && claim.verdict === "pass" ? [nameOf(claim)] : [])),
  );
  const known = onBoth.length === 0 ? "" : `; broken on both, so not new: ${listed(onBoth)}`;
  const claim = {
    id: "gate/invariants",
    stage,
    level: "must" as const,
    spec: [],
    replay,
    expected: "no invariant fails on the head that holds on the base",
  };
  if (onlyHead.length > 0) {
    return {
      ...claim,
      verdict: "fail",
      reason: `broken on the head alone: ${listed(onlyHead)}${known}`,
      got: onlyHead.map(({ id, first }) => `${id}: ${first.reason}: ${first.got}`).join("; "),
      evidence: onlyHead.flatMap(({ first }) => first.evidence).slice(0, 10),
    };
  }
  const silent = notAnswering(findings);
  if (silent.length > 0) {
    const first = findings.find(({ claim }) => nameOf(claim) === "answered" && claim.verdict !== "pass")?.claim;
    return {
      ...claim,
      verdict: "inconclusive",
      reason: `the ${silent.join(" and the ")} left too many calls unanswered to be compared: ${first?.reason ?? ""}${known}`,
      got: first?.got ?? "",
      evidence: first?.evidence ?? [],
    };
  }
  const isJudged = passed.size > 0 || onBoth.length > 0;
  return {
    ...claim,
    verdict: isJudged ? "pass" : "inconclusive",
    evidence: [],
    reason: isJudged
      ? `${passed.size} invariants held on the head${known}`
      : "no block could be judged by any invariant",
    got: isJudged ? [...passed].sort().join(", ") : "nothing to judge by",
  };
};

/**
 * Tries a mutant on a small stage. What a judge could not decide because the machine was busy is tried again; what it condemned
 * or acquitted stands.
 */
import type { Claim } from "../history/run-document.ts";
import { type Mutant, type MutantStage, nobody } from "../mutants/mutant.ts";
import { HEALTHY, type Parts } from "../platform/parts.ts";
import { type Column, columnOf } from "./columns.ts";
import { REVOCATION_BUDGET_MS } from "./deployment.ts";
import { MINI_STAGES, runMiniStage } from "./stages.ts";

/**
 *   of a mutant where it has to be caught   `killed` by everybody who must; `wrong-judge`: condemned, but not by all of them;
 *                                           `survived`; `undecided`
 *   of a mutant elsewhere                   `seen`, `not-seen`, `undecided`
 *   of the healthy platform                 `acquitted`, `false-positive`, `undecided`
 */
export type TrialVerdict =
  | "killed"
  | "wrong-judge"
  | "survived"
  | "seen"
  | "not-seen"
  | "acquitted"
  | "false-positive"
  | "undecided";

export type Trial = {
  mutant: string;
  column: Column;
  /** The small stage, or the law. */
  stage: string;
  /** Whether it is here that the mutant has to be caught; true of the healthy platform, which has to be acquitted everywhere. */
  own: boolean;
  /** Who was to condemn it, each of them; for the healthy platform, who was to acquit it. */
  intended: readonly string[];
  /** Who condemned it: ids of invariants, `verify/<rule>`, `gate/<measurement>`, names of laws. */
  by: string[];
  verdict: TrialVerdict;
  /** What the judges said that decided it, a line each. */
  reasons: string[];
  attempts: number;
  durationMs: number;
};

type Judged = Pick<Trial, "verdict" | "by" | "reasons">;

const ATTEMPTS = 3;
/** The gate measures on by itself where it cannot decide. */
const attemptsOn = (stage: MutantStage, own: boolean): number => (own && stage !== "gate" ? ATTEMPTS : 1);

/** The healthy platform of the small stages: records are kept for less long, so that a change need not be waited for. */
export const healthyParts = (): Parts => ({
  ...HEALTHY,
  keyCache: { ...HEALTHY.keyCache, maxAgeMs: REVOCATION_BUDGET_MS },
});

/** `verify/<rule>` and `gate/<measurement>` whole, an invariant's id without the stage. */
const judgeOf = ({ id }: Claim): string => (/^(verify|gate)\//.test(id) ? id : id.slice(0, id.indexOf("/")));

const said = (claim: Claim): string => `${judgeOf(claim)}: ${claim.verdict}: ${claim.reason}: ${claim.got}`;

const judgeHealthy = (claims: readonly Claim[], proves: readonly string[]): Judged => {
  const condemned = claims.filter(({ verdict }) => verdict === "fail");
  const by = condemned.map(judgeOf);
  if (condemned.length > 0) return { verdict: "false-positive", by, reasons: condemned.map(said) };
  const open = claims.filter((claim) => proves.includes(judgeOf(claim)) && claim.verdict !== "pass");
  const missing = proves.filter((id) => !claims.some((claim) => judgeOf(claim) === id));
  const reasons = [...open.map(said), ...missing.map((id) => `${id}: was not asked`)];
  return { verdict: reasons.length > 0 ? "undecided" : "acquitted", by, reasons };
};

const judgeSpoilt = (claims: readonly Claim[], intended: readonly string[]): Judged => {
  const condemned = claims.filter(({ verdict }) => verdict === "fail");
  const by = condemned.map(judgeOf);
  if (intended.every((id) => by.includes(id))) return { verdict: "killed", by, reasons: condemned.map(said) };
  const due = claims.filter((claim) => intended.includes(judgeOf(claim)) && claim.verdict !== "fail");
  const open = due.some(({ verdict }) => verdict === "inconclusive");
  const missed = by.length > 0 ? "wrong-judge" : "survived";
  return { verdict: open ? "undecided" : missed, by, reasons: [...due, ...condemned].map(said) };
};

const judgeElsewhere = (claims: readonly Claim[]): Judged => {
  const condemned = claims.filter(({ verdict }) => verdict === "fail");
  return {
    verdict: condemned.length > 0 ? "seen" : "not-seen",
    by: condemned.map(judgeOf),
    reasons: condemned.map(said),
  };
};

/** `own` as in `Trial`; elsewhere it is only looked who else sees it, once. */
export const tryOn = async (mutant: Mutant, stage: MutantStage, own = true): Promise<Trial> => {
  const beganMs = performance.now();
  const healthy = mutant.name === nobody.name;
  const intended = healthy ? MINI_STAGES[stage].proves : own ? mutant.kills : [];
  const judge = (claims: readonly Claim[]): Judged => {
    if (healthy) return judgeHealthy(claims, intended);
    return own ? judgeSpoilt(claims, intended) : judgeElsewhere(claims);
  };
  for (let attempts = 1; ; attempts += 1) {
    const judged = await runMiniStage(stage, mutant.spoil(healthyParts()), healthyParts(), intended).then(
      judge,
      (error: unknown): Judged => {
        const reasons = [error instanceof Error ? error.message : String(error)];
        return { verdict: "undecided", by: [], reasons };
      },
    );
    if (judged.verdict === "undecided" && attempts < attemptsOn(stage, own)) continue;
    const durationMs = Math.round(performance.now() - beganMs);
    return { mutant: mutant.name, column: columnOf(stage), stage, own, intended, ...judged, attempts, durationMs };
  }
};

/** Whether a trial is what it should be; elsewhere than where a mutant has to be caught, anything is. */
export const isRight = ({ verdict, own }: Trial): boolean => !own || verdict === "killed" || verdict === "acquitted";

/** A judge was wrong, which no second try would change. */
export const isWrong = ({ verdict }: Trial): boolean =>
  verdict === "survived" || verdict === "wrong-judge" || verdict === "false-positive";

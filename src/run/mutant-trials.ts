/**
 * Tries mutants: each on its stage, the healthy platform on every stage. What a judge could not decide because the machine
 * was busy is tried again; what it condemned or acquitted stands.
 */
import type { Claim } from "../history/run-document.ts";
import { type Mutant, nobody } from "../mutants/mutant.ts";
import { HEALTHY, type Parts } from "../platform/parts.ts";
import { REVOCATION_BUDGET_MS } from "./mutant-deployment.ts";
import { MINI_STAGE_NAMES, MINI_STAGES, type MiniStageName, runMiniStage } from "./mutant-stages.ts";

export type Trial = {
  mutant: string;
  stage: MiniStageName;
  /** Who was to condemn it, each of them; for the healthy platform, who was to acquit it. */
  intended: readonly string[];
  /** Invariants that condemned it. */
  by: string[];
  /** `false-positive` and `unproved` are said of the healthy platform alone. */
  verdict: "killed" | "survived" | "undecided" | "acquitted" | "false-positive" | "unproved";
  /** What the judges said that decided it, a line each. */
  told: string[];
  attempts: number;
  durationMs: number;
};

const ATTEMPTS = 3;
/** Stages tried at once: most of their time is spent waiting. */
const AT_ONCE = 4;

/** The healthy platform of the small stages: records are kept for less long, so that a change need not be waited for. */
const base = (): Parts => ({ ...HEALTHY, keyCache: { ...HEALTHY.keyCache, maxAgeMs: REVOCATION_BUDGET_MS } });

/** `verify/<rule>`, or the invariant's id without the stage. */
const judgeOf = ({ id }: Claim): string => (id.startsWith("verify/") ? id : id.slice(0, id.indexOf("/")));

const said = (claim: Claim): string => `${judgeOf(claim)}: ${claim.verdict}: ${claim.reason}: ${claim.got}`;

type Judged = Pick<Trial, "verdict" | "by" | "told">;

const judgeHealthy = (claims: readonly Claim[], proves: readonly string[]): Judged => {
  const condemned = claims.filter(({ verdict }) => verdict === "fail");
  const by = condemned.map(judgeOf);
  if (condemned.length > 0) return { verdict: "false-positive", by, told: condemned.map(said) };
  const open = claims.filter((claim) => proves.includes(judgeOf(claim)) && claim.verdict !== "pass");
  return { verdict: open.length > 0 ? "unproved" : "acquitted", by, told: open.map(said) };
};

const judgeSpoilt = (claims: readonly Claim[], intended: readonly string[]): Judged => {
  const condemned = claims.filter(({ verdict }) => verdict === "fail");
  const by = condemned.map(judgeOf);
  if (intended.every((id) => by.includes(id))) return { verdict: "killed", by, told: condemned.map(said) };
  const due = claims.filter((claim) => intended.includes(judgeOf(claim)) && claim.verdict !== "fail");
  const open = due.some(({ verdict }) => verdict === "inconclusive");
  return { verdict: open ? "undecided" : "survived", by, told: [...due, ...condemned].map(said) };
};

export const tryOn = async (mutant: Mutant, stage: MiniStageName, attemptsMax = ATTEMPTS): Promise<Trial> => {
  const beganMs = performance.now();
  const healthy = mutant.name === nobody.name;
  const intended = healthy ? MINI_STAGES[stage].proves : mutant.kills;
  for (let attempts = 1; ; attempts += 1) {
    const judged = await runMiniStage(stage, mutant.spoil(base())).then(
      (claims) => (healthy ? judgeHealthy(claims, intended) : judgeSpoilt(claims, intended)),
      (error: unknown): Judged => ({
        verdict: healthy ? "unproved" : "undecided",
        by: [],
        told: [error instanceof Error ? error.message : String(error)],
      }),
    );
    const open = judged.verdict === "undecided" || judged.verdict === "unproved";
    if (open && attempts < attemptsMax) continue;
    const durationMs = Math.round(performance.now() - beganMs);
    return { mutant: mutant.name, stage, intended, ...judged, attempts, durationMs };
  }
};

/** `null`: no small stage can try it, only the gate. */
export const stageOf = ({ stage }: Mutant): MiniStageName | null => (stage === "gate" ? null : stage);

/** `own`: the stage on which it has to be caught; elsewhere it is only looked who else sees it. */
export type Attempt = { mutant: Mutant; stage: MiniStageName; own: boolean };

/** The healthy platform on every stage that is visited, each mutant on its own one, `everywhere` on all of them. */
export const planTrials = (mutants: readonly Mutant[], everywhere: boolean): Attempt[] => {
  const attempts: Attempt[] = [];
  for (const mutant of mutants) {
    const own = stageOf(mutant);
    if (own === null) continue;
    attempts.push({ mutant, stage: own, own: true });
    if (!everywhere) continue;
    for (const stage of MINI_STAGE_NAMES) if (stage !== own) attempts.push({ mutant, stage, own: false });
  }
  const visited = MINI_STAGE_NAMES.filter((name) => attempts.some(({ stage }) => stage === name));
  return [...visited.map((stage) => ({ mutant: nobody, stage, own: true })), ...attempts];
};

/** In the order of the attempts, whatever the order in which they ended. */
export const tryAll = async (
  attempts: readonly Attempt[],
  onTrial: (trial: Trial, attempt: Attempt) => void = () => {},
): Promise<Trial[]> => {
  const trials: Trial[] = [];
  const next = attempts.entries();
  const worker = async (): Promise<void> => {
    for (const [at, attempt] of next) {
      const trial = await tryOn(attempt.mutant, attempt.stage, attempt.own ? ATTEMPTS : 1);
      trials[at] = trial;
      onTrial(trial, attempt);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return trials;
};

/** Whether a trial on a mutant's own stage is what it should be. */
export const isRight = ({ verdict }: Trial): boolean => verdict === "killed" || verdict === "acquitted";

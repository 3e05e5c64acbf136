/**
 * Tries mutants of the fault kind on real experiments of `chaos`, with processes, toxiproxy and load. Each has to pass an
 * experiment that does not touch what it spoils, and to be killed on the one that does.
 */
import { eitherOf } from "../history/played-again.ts";
import type { Claim, RunDocument } from "../history/run-document.ts";
import { aligned } from "./table.ts";

export type ExperimentTrial = {
  mutant: string;
  /** The experiment that has to kill it, and the invariants that have to fail there. */
  on: string;
  by: readonly string[];
  /** An experiment that the mutant has to pass. */
  passes: string;
};

// biome-ignore format: a table
export const EXPERIMENT_TRIALS: readonly ExperimentTrial[] = ([
  ["fails-open", "limiter-refused", "fails-closed", "keys-refused"],
  ["answers-401-when-keys-are-down", "keys-refused", "fails-closed", "limiter-refused"],
  ["stays-broken-after-healing", "limiter-refused", "recovers", "keys-refused"],
  ["trusts-a-stale-key", "keys-refused", "fails-closed", "limiter-refused"],
  ["serves-stale-when-keys-are-down", "keys-refused", "fails-closed", "limiter-refused"],
  ["refunds-twice", "limiter-reply-lost", "charged-once", "limiter-refused"],
  ["charges-the-retry-again", "limiter-reply-lost", "charged-once", "keys-refused"],
  ["keeps-the-charge-of-a-lost-reply", "last-unit-reply-lost", "refused-is-not-charged", "limiter-refused"],
  ["stampedes-the-key-service", "keys-slow-within-budget", "recovers", "limiter-refused"],
  ["leaks-a-pool", "limiter-stopped", "nothing-is-left-open", "keys-refused"],
  ["forgets-refunds-on-restart", "api-restarted-unsettled", "refused-is-not-charged", "api-restarted"],
  ["hangs-instead-of-refusing", "limiter-reply-lost", "refuses-in-time", "limiter-refused"],
  ["forgets-the-new-month", "month-edge-reply-lost", "admits-what-is-allowed", "keys-refused"],
] as const).map(([mutant, on, by, passes]) => ({ mutant, on, by: [by], passes }));

export type ExperimentJudged = Omit<ExperimentTrial, "by"> & {
  must: readonly string[];
  /** Invariants that failed on `on`. */
  by: string[];
  verdict: "killed" | "wrong-judge" | "survived" | "false-positive" | "undecided";
  /** What was wrong with the trial, one line each. */
  told: string[];
};

const failures = (claims: readonly Claim[], stage: string): Claim[] =>
  claims.filter((claim) => eitherOf(claim.stage) === stage && claim.level === "must" && claim.verdict === "fail");
const invariantOf = ({ id }: Claim): string => id.slice(0, id.indexOf("/"));
const said = ({ id, verdict, reason, got }: Claim): string => `${id}: ${verdict}: ${reason}: ${got}`;

/** `claims`: of the run with the mutant planted. */
export const judgeTrial = (
  { by: must, ...trial }: ExperimentTrial,
  { claims }: Pick<RunDocument, "claims">,
): ExperimentJudged => {
  const killers = failures(claims, trial.on);
  const by = [...new Set(killers.map(invariantOf))];
  const wrongly = failures(claims, trial.passes);
  const missed = must.filter((id) => !by.includes(id));
  const missedClaims = claims.filter((claim) => claim.stage === trial.on && missed.includes(invariantOf(claim)));
  const deciding = claims.filter(
    (claim) => claim.stage === trial.passes || claim.stage === "run" || missedClaims.includes(claim),
  );
  const open = deciding.filter(({ verdict, level }) => verdict === "inconclusive" && level === "must");
  const decided = missed.length === 0 ? "killed" : by.length > 0 ? "wrong-judge" : "survived";
  const verdict = wrongly.length > 0 ? "false-positive" : open.length > 0 ? "undecided" : decided;
  const told = verdict === "killed" ? [] : [...wrongly, ...missedClaims, ...open].map(said);
  return { ...trial, must, by, verdict, told: [...new Set(told)] };
};

/** Must claims that the healthy platform did not pass on the same experiments, one line each. */
export const healthyFaults = ({ claims }: Pick<RunDocument, "claims">): string[] =>
  claims
    .filter(({ level, verdict }) => level === "must" && (verdict === "fail" || verdict === "inconclusive"))
    .map(said);

export const experimentsOf = (trials: readonly ExperimentTrial[]): string[] => [
  ...new Set(trials.flatMap(({ on, passes }) => [passes, on])),
];

export const trialsTable = (judged: readonly ExperimentJudged[]): string[] =>
  aligned(
    [
      ["mutant", "passes", "experiment", "failed there", "verdict"],
      ...judged.map(({ mutant, passes, on, by, verdict }) => [mutant, passes, on, by.join(", ") || "-", verdict]),
    ],
    "  ",
  );

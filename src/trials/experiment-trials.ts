/**
 * Mutants of the fault kind before the real experiments of `chaos`: processes, toxiproxy and the load of a run, where the
 * small stages have links in one process. Each is played on an experiment that does not touch what it spoils, which has to
 * pass, and on the one that is made to catch it.
 */
import { eitherOf } from "../history/played-again.ts";
import type { Claim, RunDocument } from "../history/run-document.ts";

export type ExperimentTrial = {
  mutant: string;
  /** The experiment that has to kill it, and invariants of which each has to fail there. */
  on: string;
  by: readonly string[];
  /** An experiment that it passes like the healthy platform. */
  passes: string;
};

export const EXPERIMENT_TRIALS: readonly ExperimentTrial[] = [
  { mutant: "fails-open", on: "limiter-refused", by: ["fails-closed"], passes: "keys-refused" },
  { mutant: "answers-401-when-keys-are-down", on: "keys-refused", by: ["fails-closed"], passes: "limiter-refused" },
  { mutant: "stays-broken-after-healing", on: "limiter-refused", by: ["recovers"], passes: "keys-refused" },
  { mutant: "trusts-a-stale-key", on: "keys-refused", by: ["fails-closed"], passes: "limiter-refused" },
  { mutant: "serves-stale-when-keys-are-down", on: "keys-refused", by: ["fails-closed"], passes: "limiter-refused" },
  { mutant: "refunds-twice", on: "limiter-reply-lost", by: ["charged-once"], passes: "limiter-refused" },
  { mutant: "charges-the-retry-again", on: "limiter-reply-lost", by: ["charged-once"], passes: "keys-refused" },
  {
    mutant: "keeps-the-charge-of-a-lost-reply",
    on: "last-unit-reply-lost",
    by: ["refused-is-not-charged"],
    passes: "limiter-refused",
  },
  { mutant: "stampedes-the-key-service", on: "keys-slow-within-budget", by: ["recovers"], passes: "limiter-refused" },
  {
    mutant: "leaks-a-pool",
    on: "limiter-stopped",
    by: ["nothing-is-left-open"],
    passes: "keys-refused",
  },
  {
    mutant: "forgets-refunds-on-restart",
    on: "api-restarted-unsettled",
    by: ["refused-is-not-charged"],
    passes: "api-restarted",
  },
  { mutant: "hangs-instead-of-refusing", on: "limiter-reply-lost", by: ["refuses-in-time"], passes: "limiter-refused" },
  {
    mutant: "forgets-the-new-month",
    on: "month-edge-reply-lost",
    by: ["admits-what-is-allowed"],
    passes: "keys-refused",
  },
];

export type ExperimentVerdict = "killed" | "wrong-judge" | "survived" | "false-positive" | "undecided";

export type ExperimentJudged = Omit<ExperimentTrial, "by"> & {
  must: readonly string[];
  /** Invariants that failed where it had to be killed. */
  by: string[];
  verdict: ExperimentVerdict;
  /** What was wrong with the trial, a line each; empty of one that is as it should be. */
  told: string[];
};

const failures = (claims: readonly Claim[], stage: string): Claim[] =>
  claims.filter((claim) => eitherOf(claim.stage) === stage && claim.level === "must" && claim.verdict === "fail");
const invariantOf = ({ id }: Claim): string => id.slice(0, id.indexOf("/"));
const said = ({ id, verdict, reason, got }: Claim): string => `${id}: ${verdict}: ${reason}: ${got}`;

/** From the run with the mutant planted. */
export const judgeTrial = (
  { by: must, ...trial }: ExperimentTrial,
  { claims }: Pick<RunDocument, "claims">,
): ExperimentJudged => {
  const killers = failures(claims, trial.on);
  const by = [...new Set(killers.map(invariantOf))];
  const wrongly = failures(claims, trial.passes);
  const missed = must.filter((id) => !by.includes(id));
  const open = claims.filter(
    (claim) =>
      claim.verdict === "inconclusive" &&
      claim.level === "must" &&
      (claim.stage === trial.passes ||
        claim.stage === "run" ||
        (claim.stage === trial.on && missed.includes(invariantOf(claim)))),
  );
  const missedClaims = claims.filter((claim) => claim.stage === trial.on && missed.includes(invariantOf(claim)));
  const verdict = ((): ExperimentVerdict => {
    if (wrongly.length > 0) return "false-positive";
    if (missed.length > 0) return open.length > 0 ? "undecided" : by.length > 0 ? "wrong-judge" : "survived";
    return open.length > 0 ? "undecided" : "killed";
  })();
  const told = verdict === "killed" ? [] : [...wrongly, ...missedClaims, ...open].map(said);
  return { ...trial, must, by, verdict, told: [...new Set(told)] };
};

/** What must of the healthy platform did not pass on the same experiments, a line each. */
export const healthyFaults = ({ claims }: Pick<RunDocument, "claims">): string[] =>
  claims
    .filter(({ level, verdict }) => level === "must" && (verdict === "fail" || verdict === "inconclusive"))
    .map(said);

/** All experiments that any trial needs, each once. */
export const experimentsOf = (trials: readonly ExperimentTrial[]): string[] => [
  ...new Set(trials.flatMap(({ on, passes }) => [passes, on])),
];

export const trialsTable = (judged: readonly ExperimentJudged[]): string => {
  const rows = [
    ["mutant", "passes", "experiment", "failed there", "verdict"],
    ...judged.map(({ mutant, passes, on, by, verdict }) => [mutant, passes, on, by.join(", ") || "-", verdict]),
  ];
  const widths = [0, 1, 2, 3, 4].map((at) => Math.max(...rows.map((row) => (row[at] ?? "").length)));
  return rows
    .map(
      (row) =>
        `${row
          .map((text, at) => text.padEnd(widths[at] ?? 0))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
};

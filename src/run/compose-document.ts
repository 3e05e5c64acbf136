/** Puts a run's stages and claims together to the document that every report is rendered from. */
import { cleanValue } from "../contract/foreign-text.ts";
import { OUTCOMES } from "../contract/refusals.ts";
import type { Deployment } from "../deployments/deployment.ts";
import type { Calibration, Claim, Measurement, RunDocument, StandIn } from "../history/run-document.ts";
import type { RecordedStage } from "../history/stage-outcome.ts";
import { mergeClaims } from "../report/verdict.ts";
import { redactor } from "../supervision/redaction.ts";
import { addSpent, NOTHING_SPENT } from "../workload/budget.ts";
import { worstExit } from "./exit-codes.ts";

/**
 * Masks and cleans a value, once for every report, `--json` and the terminal: after rendering a secret would look
 * different (`a<b` is `a&lt;b` in a page).
 */
export const shown = <T>(value: T): T => cleanValue(redactor.redactValue(value)) as T;

/** Verdict, exit code and coverage: what follows from the claims, also when they are judged again. */
export const verdictOf = (
  claims: readonly Claim[],
  seen: number,
  required: readonly string[],
): Pick<RunDocument, "verdict" | "exit_code" | "coverage"> => {
  const { verdict, exit_code } = mergeClaims([...claims], required);
  return {
    verdict,
    exit_code,
    coverage: {
      outcomes_seen: seen,
      outcomes_of: OUTCOMES.length,
      claims_judged: claims.filter((claim) => claim.verdict === "pass" || claim.verdict === "fail").length,
      claims_skipped: claims.filter((claim) => claim.verdict === "skipped").length,
    },
  };
};

type RunFacts = {
  id: string;
  profile: string;
  seed: number;
  commit: string | null;
  started: Date;
  finished: Date;
  deployments: readonly Pick<Deployment, "target" | "budget" | "embedded">[];
  stages: readonly RecordedStage[];
  claims: Claim[];
  measurements: readonly Measurement[];
  calibration: readonly Calibration[];
  standIns: readonly StandIn[];
  outcomesSeen: number;
  /** Names of claims or groups that must have been judged (target file, `required`). */
  required: readonly string[];
  environment: RunDocument["environment"];
  /** What applies besides the claims: a signal, a missing tool, a run that did not come to its end. */
  exitCode: number | null;
};

const spendingOf = (deployments: RunFacts["deployments"]): Pick<RunDocument, "spent" | "budget"> => {
  const spent = deployments.reduce((sum, { budget }) => addSpent(sum, budget.spent()), NOTHING_SPENT);
  const budget = deployments[0]?.target.budget;
  return {
    spent: { ...spent, stream_seconds: Math.round(spent.stream_seconds * 1000) / 1000 },
    ...(deployments.length !== 1 || budget === undefined ? {} : { budget }),
  };
};

export const composeDocument = (facts: RunFacts): RunDocument => {
  const { id, profile, seed, commit, started, finished, deployments, stages, claims, environment } = facts;
  const follows = verdictOf(claims, facts.outcomesSeen, facts.required);
  const [first] = deployments;
  return shown({
    schema: "floodgate/run@1",
    id,
    profile,
    seed,
    commit,
    started_at: started.toISOString(),
    finished_at: finished.toISOString(),
    duration_ms: finished.getTime() - started.getTime(),
    ...follows,
    exit_code: facts.exitCode === null ? follows.exit_code : worstExit(facts.exitCode, follows.exit_code),
    ...(facts.required.length === 0 ? {} : { required: [...facts.required] }),
    target: {
      name: deployments.map(({ target }) => target.name ?? target.base_url).join(" and ") || "embedded",
      base_url: first?.target.base_url ?? "",
      embedded: first?.embedded ?? true,
    },
    environment,
    ...(facts.standIns.length === 0 ? {} : { stand_ins: [...facts.standIns] }),
    calibration: [...facts.calibration],
    ...spendingOf(deployments),
    stages: stages.map(({ summary }) => summary),
    claims,
    measurements: [...stages.flatMap(({ measurements }) => measurements), ...facts.measurements],
    faults: stages.flatMap(({ faults }) => faults),
  });
};

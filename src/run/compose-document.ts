/** Puts a run's stages and claims together to the document that every report is rendered from. */
import { execFile } from "node:child_process";
import { cpus, release, type } from "node:os";
import { promisify } from "node:util";
import { cleanValue } from "../contract/foreign-text.ts";
import { OUTCOMES } from "../contract/refusals.ts";
import type { Deployment } from "../deployments/deployment.ts";
import type { Calibration, Claim, Measurement, RunDocument, StandIn } from "../history/run-document.ts";
import type { RecordedStage } from "../history/stage-outcome.ts";
import { mergeClaims } from "../report/verdict.ts";
import { redactor } from "../supervision/redaction.ts";
import { addSpent, NOTHING_SPENT } from "../workload/budget.ts";
import { worstExit } from "./exit-codes.ts";

/** A disk that does not answer must not keep a finished run from its report. */
const GIT_MS = 5_000;
const git = async (folder: string, ...args: string[]): Promise<string> =>
  (await promisify(execFile)("git", ["-C", folder, ...args], { timeout: GIT_MS })).stdout.trim();

/** The commit under test, with `+` when files differ from it; `null` outside a checkout or without git. */
export const commitOf = async (folder: string): Promise<string | null> => {
  try {
    const commit = await git(folder, "rev-parse", "--short=12", "HEAD");
    return commit + ((await git(folder, "status", "--porcelain", "--untracked-files=no")) === "" ? "" : "+");
  } catch {
    return null;
  }
};

export const describeEnvironment = (
  tools: { k6: string | null; toxiproxy: string | null },
  hostNotes: string[],
): RunDocument["environment"] => ({
  node: process.versions.node,
  ...tools,
  os: `${type()} ${release()} ${process.arch}`,
  cores: cpus().length,
  cpu: cpus()[0]?.model ?? "unknown",
  host_notes: hostNotes,
});

/** Masks and cleans a value once, for every report: after rendering a secret would look different (`a<b` is `a&lt;b` in a page). */
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

export type RunFacts = Pick<RunDocument, "id" | "profile" | "seed" | "commit" | "claims"> & {
  /** Their versions. */
  tools: Parameters<typeof describeEnvironment>[0];
  started: Date;
  finished: Date;
  deployments: readonly Pick<Deployment, "target" | "budget" | "embedded">[];
  stages: readonly RecordedStage[];
  measurements: readonly Measurement[];
  calibration: readonly Calibration[];
  standIns: readonly StandIn[];
  outcomesSeen: number;
  /** Names of claims or groups that must have been judged (target file, `required`). */
  required: readonly string[];
  /** What applies besides the claims: a signal, a missing tool, a run that did not come to its end. */
  exitCode: number | null;
};

export const composeDocument = (facts: RunFacts): RunDocument => {
  const { id, profile, seed, commit, started, finished, deployments, stages, claims } = facts;
  const { required, standIns, calibration, measurements, exitCode } = facts;
  const follows = verdictOf(claims, facts.outcomesSeen, required);
  const [first] = deployments;
  const notes = stages.flatMap((stage) => stage.notes);
  const budget = deployments.length === 1 ? first?.target.budget : undefined;
  const spent = deployments.reduce((sum, one) => addSpent(sum, one.budget.spent()), NOTHING_SPENT);
  return shown({
    schema: "floodgate/run@1",
    ...{ id, profile, seed, commit },
    started_at: started.toISOString(),
    finished_at: finished.toISOString(),
    duration_ms: finished.getTime() - started.getTime(),
    ...follows,
    exit_code: exitCode === null ? follows.exit_code : worstExit(exitCode, follows.exit_code),
    ...(required.length > 0 && { required: [...required] }),
    target: {
      name: deployments.map(({ target }) => target.name ?? target.base_url).join(" and ") || "embedded",
      base_url: first?.target.base_url ?? "",
      embedded: first?.embedded ?? true,
    },
    environment: describeEnvironment(facts.tools, notes),
    ...(standIns.length > 0 && { stand_ins: [...standIns] }),
    calibration: [...calibration],
    spent: { ...spent, stream_seconds: Math.round(spent.stream_seconds * 1000) / 1000 },
    ...(budget && { budget }),
    stages: stages.map(({ summary }) => summary),
    claims,
    measurements: [...stages.flatMap((stage) => stage.measurements), ...measurements],
    faults: stages.flatMap(({ faults }) => faults),
  });
};

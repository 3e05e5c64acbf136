/** Puts a run's stages and claims together to the document that every report is rendered from. */
import { OUTCOMES } from "../contract/refusals.ts";
import type { Line } from "../history/line.ts";
import type { Claim, RunDocument } from "../history/run-document.ts";
import { mergeClaims } from "../report/verdict.ts";
import type { Target } from "../target/target.ts";
import type { StageOutcome } from "./stage.ts";

/** Both failures that travel under 200 are counted as `200 error`; how the stream ended tells them apart. */
export const outcomesSeen = (lines: Iterable<Line>): number => {
  const seen = new Set<string>();
  for (const line of lines) {
    if (line.type === "call") seen.add(line.ended === "error_event" ? "200 error event" : line.outcome);
  }
  return OUTCOMES.filter((outcome) => seen.has(outcome)).length;
};

/** Verdict, exit code and coverage: what follows from the claims, also when they are judged again. */
export const verdictOf = (
  claims: readonly Claim[],
  lines: Iterable<Line>,
  required: readonly string[],
): Pick<RunDocument, "verdict" | "exit_code" | "coverage"> => {
  const { verdict, exit_code } = mergeClaims([...claims], required);
  return {
    verdict,
    exit_code,
    coverage: {
      outcomes_seen: outcomesSeen(lines),
      outcomes_of: OUTCOMES.length,
      claims_judged: claims.filter((claim) => claim.verdict === "pass" || claim.verdict === "fail").length,
      claims_skipped: claims.filter((claim) => claim.verdict === "skipped").length,
    },
  };
};

export type RunFacts = {
  id: string;
  profile: string;
  seed: number;
  commit: string | null;
  started: Date;
  finished: Date;
  target: Target | undefined;
  embedded: boolean;
  /** Names of claims or groups that must have been judged (target file, `required`). */
  required: readonly string[];
  environment: RunDocument["environment"];
  /** Where something other than the claims decides it: a signal, a missing tool. */
  exitCode: number | null;
};

export const composeDocument = (facts: RunFacts, outcomes: readonly StageOutcome[], claims: Claim[]): RunDocument => {
  const { id, profile, seed, commit, started, finished, target, environment } = facts;
  const follows = verdictOf(
    claims,
    outcomes.flatMap(({ lines }) => lines),
    facts.required,
  );
  return {
    schema: "floodgate/run@1",
    ...{ id, profile, seed, commit },
    started_at: started.toISOString(),
    finished_at: finished.toISOString(),
    duration_ms: finished.getTime() - started.getTime(),
    ...follows,
    exit_code: facts.exitCode ?? follows.exit_code,
    ...(facts.required.length === 0 ? {} : { required: [...facts.required] }),
    target: { name: target?.name ?? "embedded", base_url: target?.base_url ?? "", embedded: facts.embedded },
    environment,
    calibration: [],
    stages: outcomes.map(({ summary }) => summary),
    claims,
    measurements: outcomes.flatMap(({ measurements }) => measurements),
    faults: outcomes.flatMap(({ faults }) => faults),
  };
};

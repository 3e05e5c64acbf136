/** Claims whether a stage reached what it is about, and if not, whether driver, fault or host prevented it. */

import type { Deployment } from "../deployments/deployment.ts";
import type { Problem } from "../drivers/driver.ts";
import { claimOf } from "../history/claim.ts";
import type { Claim, StageSummary } from "../history/run-document.ts";
import type { StageHost } from "../history/stage-host.ts";
import type { StageOutcome } from "../history/stage-outcome.ts";
import { stageOutcome } from "../history/stage-outcome.ts";
import { FAULT_STATE_WORDS } from "../history/states-reached.ts";
import { standstillDoubts } from "../history/time-doubts.ts";
import type { Reach } from "../workload/story.ts";
import { driverOf, type LoadStage, type StagePlan } from "./stage-plan.ts";
import { statedFacts } from "./witnesses.ts";

const isSeenIn =
  ({ by_outcome }: StageSummary) =>
  (outcome: string): boolean =>
    (by_outcome[outcome] ?? 0) > 0;

const neverReached = (summary: StageSummary, { all, oneOf }: Reach): string[] => {
  const isSeen = isSeenIn(summary);
  const missing = all.filter((outcome) => !isSeen(outcome));
  const none = oneOf.length > 0 && !oneOf.some(isSeen) ? [`one of ${oneOf.join(", ")}`] : [];
  return [...missing, ...none];
};

const neverMet = ({ states = [] }: StageSummary): string[] =>
  states.filter(({ must, times }) => must && times === 0).map(({ state }) => FAULT_STATE_WORDS[state]);

/** A recovery deadline missed on a machine that stood still decides nothing. */
export const onThisMachine = (problem: Problem, host: StageHost, budgetMs?: number): Problem => {
  const doubts = problem.about === "recovery" ? standstillDoubts(host, budgetMs) : [];
  return doubts.length === 0
    ? problem
    : { verdict: "inconclusive", reason: `${problem.reason}, and ${doubts.join("; ")}` };
};

export const reachedClaims = (
  plan: LoadStage,
  parts: { summary: StageSummary; problems: readonly Problem[]; notes: readonly string[]; reach: Reach },
  replay: string,
): Claim[] => {
  const { summary, reach } = parts;
  const missing = neverReached(summary, reach);
  const doubts = [...parts.problems];
  if (missing.length > 0) doubts.push({ verdict: "inconclusive", reason: `never reached: ${missing.join(", ")}` });
  const unmet = neverMet(summary);
  if (unmet.length > 0) {
    doubts.push({ verdict: "inconclusive", reason: `never met by the fault: ${unmet.join(", ")}` });
  }
  const isFailed = doubts.some(({ verdict }) => verdict === "fail");
  const verdict = isFailed ? "fail" : doubts.length > 0 ? "inconclusive" : "pass";
  const reasons = [...doubts.map(({ reason }) => reason), ...(verdict === "pass" ? [] : parts.notes)];
  const got = Object.entries(summary.by_outcome)
    .map(([outcome, n]) => `${n} x ${outcome}`)
    .join(", ");
  // Unexpected outcomes may come by chance or from other callers.
  const isSeen = isSeenIn(summary);
  const beyond = reach.beyond.filter(({ outcome }) => !isSeen(outcome));
  const expected = [...reach.all, ...(reach.oneOf.length > 0 ? [`one of ${reach.oneOf.join(", ")}`] : [])].join(", ");
  const about = { id: `reached/${plan.name}`, stage: plan.name, got, replay };
  return [
    claimOf({
      ...about,
      verdict,
      reason: reasons.length === 0 ? "the stage reached what it is about" : reasons.join("; "),
      expected: `the driver plays the whole schedule and sees ${expected || "answers"}`,
    }),
    ...beyond.map(({ outcome, reason }) => {
      const why = `skipped: ${outcome} is not reached on this target: ${reason}`;
      const claim = { ...about, id: `beyond/${plan.name}`, level: "info" as const, expected: outcome };
      return claimOf({ ...claim, verdict: "skipped", reason: why });
    }),
  ];
};

type Unplayed = Pick<Claim, "verdict" | "reason" | "expected">;

const unplayedStage = (
  plan: StagePlan,
  { target }: Pick<Deployment, "target">,
  why: Unplayed,
  replay: string,
): StageOutcome =>
  stageOutcome({
    summary: {
      name: plan.name,
      driver: driverOf(plan),
      duration_ms: 0,
      by_outcome: {},
      calls: { sent: 0, answered: 0, refused: 0, indeterminate: 0 },
    },
    facts: statedFacts(plan.name, { target, exclusive: false }),
    claims: [claimOf({ id: `reached/${plan.name}`, stage: plan.name, replay, ...why, got: "not played" })],
  });

/**
 * A stage that cannot be played: skipped, naming what is missing. Inconclusive on the embedded deployment, which lacks
 * nothing.
 */
export const skippedStage = (
  plan: StagePlan,
  deployment: Pick<Deployment, "target" | "embedded">,
  lacking: readonly string[],
  replay: string,
): StageOutcome => {
  const { embedded } = deployment;
  const reason = `skipped: ${embedded ? "the embedded deployment" : "the target file"} lacks ${lacking.join("; ")}`;
  const expected = "everything that the stage needs";
  return unplayedStage(plan, deployment, { verdict: embedded ? "inconclusive" : "skipped", reason, expected }, replay);
};

/** After a fault that could not be healed nothing more is judged or broken. */
export const stageOnBroken = (
  plan: StagePlan,
  deployment: Pick<Deployment, "target">,
  brokenIn: string,
  replay: string,
): StageOutcome => {
  const reason = `not played: what was done to the deployment in ${brokenIn} could not be healed, and nothing more is broken`;
  return unplayedStage(
    plan,
    deployment,
    { verdict: "inconclusive", reason, expected: "a deployment that is whole" },
    replay,
  );
};

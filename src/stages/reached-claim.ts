/** Claims whether a stage reached what it is about, and if not, whether driver, fault or host prevented it. */

import type { Deployment } from "../deployments/deployment.ts";
import type { Problem } from "../drivers/driver.ts";
import { claimOf } from "../history/claim.ts";
import type { Claim, StageSummary } from "../history/run-document.ts";
import type { StageHost } from "../history/stage-host.ts";
import { type StageOutcome, stageOutcome } from "../history/stage-outcome.ts";
import { FAULT_STATE_WORDS } from "../history/states-reached.ts";
import { standstillDoubts } from "../history/time-doubts.ts";
import type { Reach } from "../workload/story.ts";
import { driverOf, type LoadStage, type StagePlan } from "./stage-plan.ts";
import { statedFacts } from "./witnesses.ts";

/** Makes a missed recovery deadline inconclusive if this machine stood still. */
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
  const { summary, reach, problems } = parts;
  const isSeen = (outcome: string): boolean => (summary.by_outcome[outcome] ?? 0) > 0;
  const anyOf = reach.oneOf.length > 0 ? [`one of ${reach.oneOf.join(", ")}`] : [];
  const missing = [...reach.all.filter((outcome) => !isSeen(outcome)), ...(reach.oneOf.some(isSeen) ? [] : anyOf)];
  const unmet = (summary.states ?? []).filter(({ must, times }) => must && times === 0);
  const doubts = [
    ...problems.map(({ reason }) => reason),
    ...(missing.length > 0 ? [`never reached: ${missing.join(", ")}`] : []),
    ...(unmet.length > 0
      ? [`never met by the fault: ${unmet.map(({ state }) => FAULT_STATE_WORDS[state]).join(", ")}`]
      : []),
  ];
  const isFailed = problems.some(({ verdict }) => verdict === "fail");
  const verdict = isFailed ? "fail" : doubts.length > 0 ? "inconclusive" : "pass";
  const counts = Object.entries(summary.by_outcome).map(([outcome, n]) => `${n} x ${outcome}`);
  const about = { id: `reached/${plan.name}`, stage: plan.name, got: counts.join(", "), replay };
  return [
    claimOf({
      ...about,
      verdict,
      reason: verdict === "pass" ? "the stage reached what it is about" : [...doubts, ...parts.notes].join("; "),
      expected: `the driver plays the whole schedule and sees ${[...reach.all, ...anyOf].join(", ") || "answers"}`,
    }),
    // An outcome beyond reach may still be seen, by chance or by other callers; then it needs no claim.
    ...reach.beyond
      .filter(({ outcome }) => !isSeen(outcome))
      .map(({ outcome, reason: why }) => {
        const reason = `skipped: ${outcome} is not reached on this target: ${why}`;
        const claim = { ...about, id: `beyond/${plan.name}`, level: "info" as const, expected: outcome };
        return claimOf({ ...claim, verdict: "skipped", reason });
      }),
  ];
};

const unplayedStage = (
  plan: StagePlan,
  { target }: Pick<Deployment, "target">,
  why: Pick<Claim, "verdict" | "reason" | "expected" | "replay">,
): StageOutcome =>
  stageOutcome({
    summary: {
      ...{ name: plan.name, driver: driverOf(plan), duration_ms: 0, by_outcome: {} },
      calls: { sent: 0, answered: 0, refused: 0, indeterminate: 0 },
    },
    facts: statedFacts(plan.name, { target, exclusive: false }),
    claims: [claimOf({ id: `reached/${plan.name}`, stage: plan.name, ...why, got: "not played" })],
  });

/** A stage that lacks something is skipped; on the embedded deployment, which lacks nothing, it is inconclusive. */
export const skippedStage = (
  plan: StagePlan,
  deployment: Pick<Deployment, "target" | "embedded">,
  lacking: readonly string[],
  replay: string,
): StageOutcome => {
  const { embedded } = deployment;
  const reason = `skipped: ${embedded ? "the embedded deployment" : "the target file"} lacks ${lacking.join("; ")}`;
  const verdict = embedded ? "inconclusive" : "skipped";
  return unplayedStage(plan, deployment, { verdict, reason, expected: "everything that the stage needs", replay });
};

export const stageOnBroken = (
  plan: StagePlan,
  deployment: Pick<Deployment, "target">,
  brokenIn: string,
  replay: string,
): StageOutcome => {
  const reason = `not played: what was done to the deployment in ${brokenIn} could not be healed, and nothing more is broken`;
  const why = { verdict: "inconclusive", reason, expected: "a deployment that is whole", replay } as const;
  return unplayedStage(plan, deployment, why);
};

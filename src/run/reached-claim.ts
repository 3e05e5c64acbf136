/** Whether a stage saw what it is about, and what it could not see because the driver, the fault or the host failed it. */
import type { Problem } from "../drivers/open-loop/job.ts";
import type { Claim, StageSummary } from "../history/run-document.ts";
import type { Deployment } from "./deployments/deployment.ts";
import type { StageOutcome } from "./stage-outcome.ts";
import { driverOf, type LoadStage, type StagePlan } from "./stage-plan.ts";

const claimOf = (plan: StagePlan, replay: string): Omit<Claim, "verdict" | "reason" | "expected" | "got"> => ({
  ...{ id: `reached/${plan.name}`, stage: plan.name, level: "must", spec: [], evidence: [], replay },
});

export const reachedClaim = (
  plan: LoadStage,
  parts: {
    summary: StageSummary;
    problems: readonly Problem[];
    notes: readonly string[];
    /** Why it may not reach what it is about, for no fault of the target. */
    excuses: readonly string[];
  },
  replay: string,
): Claim => {
  const { by_outcome } = parts.summary;
  const missing = plan.reaches.filter((outcome) => (by_outcome[outcome] ?? 0) === 0);
  const neverReached = missing.length === 0 ? [] : [`never reached: ${missing.join(", ")}`];
  const isExcused = parts.excuses.length > 0;
  const doubts = [...parts.problems];
  if (!isExcused) doubts.push(...neverReached.map((reason): Problem => ({ verdict: "inconclusive", reason })));
  const isFailed = doubts.some(({ verdict }) => verdict === "fail");
  const isSkipped = isExcused && neverReached.length > 0 && doubts.length === 0;
  const verdict = isFailed ? "fail" : doubts.length > 0 ? "inconclusive" : isSkipped ? "skipped" : "pass";
  const reasons = [
    ...doubts.map(({ reason }) => reason),
    ...(isSkipped ? [`skipped: ${[...parts.excuses, ...neverReached].join("; ")}`] : []),
    ...(verdict === "pass" ? [] : parts.notes),
  ];
  return {
    ...claimOf(plan, replay),
    verdict,
    reason: reasons.length === 0 ? "the stage reached what it is about" : reasons.join("; "),
    expected: `the driver plays the whole schedule and sees ${plan.reaches.join(", ") || "answers"}`,
    got: Object.entries(by_outcome)
      .map(([outcome, n]) => `${n} x ${outcome}`)
      .join(", "),
  };
};

/** A stage that cannot be played on this deployment: skipped by the name of what is missing, and never counted as passed. */
export const skippedStage = (
  plan: StagePlan,
  { target, embedded }: Pick<Deployment, "target" | "embedded">,
  lacking: readonly string[],
  replay: string,
): StageOutcome => ({
  summary: {
    ...{ name: plan.name, driver: driverOf(plan), duration_ms: 0, by_outcome: {} },
    calls: { sent: 0, answered: 0, refused: 0, indeterminate: 0 },
  },
  lines: [],
  facts: {
    ...{ stage: plan.name, limits: target.limits ?? {}, shedding: target.shedding ?? "unknown" },
    ...{ exclusive: false, tenants: {}, faults: false, drained: false },
  },
  claims: [
    {
      ...claimOf(plan, replay),
      // Of the embedded deployment nothing should be missing.
      verdict: embedded ? "inconclusive" : "skipped",
      reason: `skipped: ${embedded ? "the embedded deployment" : "the target file"} lacks ${lacking.join("; ")}`,
      expected: "everything that the stage needs",
      got: "not played",
    },
  ],
  measurements: [],
  faults: [],
  notes: [],
});

/** Plays the stages of `run`, `load` and `chaos` on the embedded deployment or on a target file's. */

import type { Deployment } from "../deployments/deployment.ts";
import { type EmbeddedOptions, openDeployment } from "../deployments/embedded.ts";
import type { RunContext } from "../deployments/run-context.ts";
import { playStages } from "../stages/play-stages.ts";
import { type DeploymentWish, intentOf, type PreparedTarget, prepareTarget } from "../stages/prepare-target.ts";
import { type LoadStage, type StagePlan, type StagesWish, stagesFor } from "../stages/stage-plan.ts";
import { calibrateRun, calibrationPlanOf } from "./calibration/calibrate.ts";
import { type RunRequest, type RunResult, recordRun } from "./recorded-run.ts";

type StagesRun = Omit<RunRequest, "targets"> &
  DeploymentWish &
  Partial<EmbeddedOptions> & {
    stages: StagesWish;
    prepared?: PreparedTarget;
    uncalibrated?: true;
    isEnough?(context: RunContext, deployment: Deployment): Parameters<typeof playStages>[3];
  };

/** Without k6 the open-loop driver plays its stages, unless the user named k6. */
export const withDriversThere = async (
  context: Pick<RunContext, "toolOrStandIn">,
  plans: readonly StagePlan[],
): Promise<readonly StagePlan[]> => {
  const isForK6 = (plan: StagePlan): plan is LoadStage =>
    plan.kind === "load" && plan.driver === "k6" && plan.driverNamed === undefined;
  if (!plans.some(isForK6) || (await context.toolOrStandIn("k6", "the open-loop driver")) !== null) return plans;
  return plans.map((plan) => (isForK6(plan) ? { ...plan, driver: "open-loop" } : plan));
};

/** Throws `TargetFileError`, `GuardError` and `TargetBusyError` before anything is sent. */
export const runStages = async (request: StagesRun): Promise<RunResult> => {
  const { targetFile, owned, stages: wish, limiter = "sqlite", serve } = request;
  const { prepared = targetFile && (await prepareTarget(targetFile, owned, intentOf(wish))) } = request;
  return recordRun({ ...request, targets: prepared ? [prepared] : [] }, async (context) => {
    const deployment = await openDeployment(context, { limiter, serve });
    const plans = await withDriversThere(context, stagesFor({ ...deployment, limiter }, wish));
    if (request.uncalibrated !== true) await calibrateRun(context, calibrationPlanOf(deployment, plans));
    await playStages(context, deployment, plans, request.isEnough?.(context, deployment));
  });
};

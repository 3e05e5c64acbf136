/** The body of `run`, `load` and `chaos`: stages on the embedded deployment or on the one of a target file. */
import { calibrateRun } from "./calibration/calibrate-run.ts";
import { calibrationPlanOf, ceilingsOf, modesOf } from "./calibration/calibration-plan.ts";
import type { EmbeddedWish } from "./deployments/embedded-deployment.ts";
import { openDeployment } from "./deployments/open-deployment.ts";
import { type PreparedTarget, prepareTarget } from "./prepare-target.ts";
import { type RunRequest, type RunResult, recordRun } from "./recorded-run.ts";
import { playStages } from "./stages/play-stages.ts";
import { type DeploymentWish, intentOf, type StagesWish, stagesFor } from "./stages/stages-for.ts";

type StagesRun = Omit<RunRequest, "targets"> & DeploymentWish & Partial<EmbeddedWish> & { stages: StagesWish };

/** Throws `TargetFileError`, `GuardError` and `TargetBusyError` before anything is sent. */
export const runStages = async (request: StagesRun): Promise<RunResult> => {
  const { targetFile, owned, stages: wish, limiter = "sqlite" } = request;
  const targets: PreparedTarget[] = [];
  if (targetFile !== undefined) targets.push(await prepareTarget(targetFile, owned, intentOf(wish)));
  return recordRun({ ...request, targets }, async (context) => {
    const deployment = await openDeployment(context, { limiter });
    const plans = stagesFor({ ...deployment, limiter }, wish);
    const calibrated = calibrationPlanOf(deployment, plans);
    await calibrateRun(context, calibrated, { ceilings: ceilingsOf(calibrated, plans), ...modesOf(plans) });
    await playStages(context, deployment, plans);
  });
};

/** The body of `chaos`: one experiment after the other, on the embedded deployment or on the one of a target file. */

import type { EmbeddedOptions } from "../../deployments/embedded.ts";
import { openDeployment } from "../../deployments/embedded.ts";
import { remoteProxy } from "../../deployments/from-target.ts";
import { whyNoWatchdog } from "../../deployments/remote-watch.ts";
import { doubt } from "../../history/claim.ts";
import type { StageOutcome } from "../../history/stage-outcome.ts";
import { playStages } from "../../stages/play-stages.ts";
import { GuardError, type PreparedTarget, readTarget } from "../../stages/prepare-target.ts";
import type { StagePlan } from "../../stages/stage-plan.ts";
import { type DeploymentWish, intentOf, type StagesWish, stagesFor } from "../../stages/stages-for.ts";
import type { Target } from "../../target/target.ts";
import { type RunRequest, type RunResult, recordRun } from "../recorded-run.ts";
import { experimentStage } from "../suites/experiment-stage.ts";
import { chosenExperiments } from "./chosen.ts";
import { healBeforehand } from "./heal-left-open.ts";
import { requireWholeProxies } from "./left-open.ts";

type ChaosWish = DeploymentWish &
  EmbeddedOptions & {
    /** Empty: all that the deployment can have. */
    names: readonly string[];
    short: boolean;
  };

type ChaosRun = Omit<RunRequest, "targets" | "profile" | "required"> & ChaosWish;

/** The same for a plan and for a run. */
export const chaosStages = ({ names, short, limiter }: Pick<ChaosWish, "names" | "short" | "limiter">): StagesWish => ({
  short,
  stages: (given) => {
    const target = given.embedded ? null : given.target;
    return chosenExperiments(target, names, short, limiter).map((entry) => experimentStage(given, entry));
  },
});

/** Why no fault may be injected at all, beside what the guard says; on loopback as well. */
export const chaosRefusals = (target: Target): string[] => {
  const remote = remoteProxy(target);
  const isPermitted = target.permits?.chaos === true;
  return [
    ...(isPermitted ? [] : ["faults would be injected and permits.chaos is not true in the target file"]),
    ...(remote === null ? [] : [remote]),
  ];
};

/** What must be in order before anything is sent; each throws a sentence. */
const prepare = async (request: ChaosRun, targetFile: string): Promise<PreparedTarget> => {
  const prepared = await readTarget(targetFile, request.owned, intentOf(chaosStages(request)));
  const { target, refusals } = prepared;
  const chosen = chosenExperiments(target, request.names, request.short);
  const all = [...chaosRefusals(target), ...refusals];
  if (all.length > 0) throw new GuardError(all);
  const { watchdog } = target;
  if (watchdog !== undefined) {
    const token = watchdog.token === undefined ? null : await prepared.secrets.read(watchdog.token, "watchdog.token");
    const missing = await whyNoWatchdog({ url: watchdog.url, token });
    if (missing !== null) throw new GuardError([missing]);
  }
  if (request.healFirst === true) await healBeforehand(request.reports, [prepared], request.events.warning);
  await requireWholeProxies(
    prepared,
    new Set(chosen.flatMap(({ faults }) => faults.map(({ component }) => component))),
    request.reports,
  );
  return prepared;
};

const isStillHit = ({ claims, summary, didNotRecover }: StageOutcome): boolean =>
  didNotRecover === true || claims.some(({ id, verdict }) => verdict === "fail" && id === `recovers/${summary.name}`);

/** Throws what a user has to mend before anything begins: names, target file, guard, lock, a proxy that is not whole. */
export const runChaos = async (request: ChaosRun): Promise<RunResult> => {
  const { targetFile, replay } = request;
  const targets: PreparedTarget[] = [];
  if (targetFile === undefined) chosenExperiments(null, request.names, request.short, request.limiter);
  else targets.push(await prepare(request, targetFile));
  const required = (): string[] => request.names.map((name) => `reached/${name}`);
  return recordRun({ ...request, profile: "chaos", targets, required }, async (context) => {
    const deployment = await openDeployment(context, request);
    // What has not come back is not broken further; what could not be healed never is.
    const isEnough = (outcome: StageOutcome, left: readonly StagePlan[]): boolean => {
      if (left.length === 0 || deployment.embedded || !isStillHit(outcome)) return false;
      const why = `the deployment did not recover from ${outcome.summary.name}; ${left.length} further experiments were not begun: ${left.map(({ name }) => name).join(", ")}`;
      context.events.result(`  ${why}`);
      context.addClaims([doubt("run/completed", why, "every experiment is played", replay)]);
      return true;
    };
    await playStages(context, deployment, stagesFor(deployment, chaosStages(request)), isEnough);
  });
};

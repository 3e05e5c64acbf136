/** The body of `chaos`: experiments that are named, or all that the deployment can have, one after the other. */

import { noSuch } from "../../contract/nearest.ts";
import { type EmbeddedOptions, openDeployment } from "../../deployments/embedded.ts";
import { remoteProxy } from "../../deployments/from-target.ts";
import { whyNoWatchdog } from "../../deployments/remote-watch.ts";
import { EXPERIMENTS, type Experiment } from "../../faults/experiments.ts";
import { type Component, type Fault, faultKey } from "../../faults/fault.ts";
import { doubt } from "../../history/claim.ts";
import type { StageOutcome } from "../../history/stage-outcome.ts";
import { playStages } from "../../stages/play-stages.ts";
import { GuardError, type PreparedTarget, readTarget } from "../../stages/prepare-target.ts";
import type { StagePlan } from "../../stages/stage-plan.ts";
import { type DeploymentWish, intentOf, type StagesWish, stagesFor } from "../../stages/stages-for.ts";
import type { Target } from "../../target/target.ts";
import { UsageError } from "../exit-codes.ts";
import { type RunRequest, type RunResult, recordRun } from "../recorded-run.ts";
import { experimentStage, SHORT_EXPERIMENTS } from "../suites/experiment-stage.ts";
import { healBeforehand, requireWholeProxies } from "./left-open.ts";

const KEY = /^(limiter|keys|api|service|edge)\.([a-z0-9][a-z0-9-]*)$/;

/** The experiments that a target file's own commands bring about; those of the catalogue keep what must hold of them. */
const byCommands = ({ faults = {} }: Target): Experiment[] =>
  Object.keys(faults).flatMap((key) => {
    const [, component, fault] = KEY.exec(key) ?? [];
    if (component === undefined || fault === undefined) {
      throw new UsageError(
        `faults of the target file: expected names such as "limiter.refused" (limiter, keys, api, edge or service, a dot, a fault in small letters), but got "${key}"`,
      );
    }
    // What stages of scenarios do, and no experiment.
    if (component === "service") return [];
    const own: Experiment = {
      name: `${component}-${fault}`,
      faults: [{ by: "commands", component: component as Component, fault }],
      refuses: "some",
      holds: "what is refused because of it is refused as the contract says, and what is admitted is charged once",
    };
    return EXPERIMENTS.get(own.name) ?? own;
  });

export const experimentsFor = (target: Target | null): ReadonlyMap<string, Experiment> =>
  new Map([...EXPERIMENTS, ...(target === null ? [] : byCommands(target)).map((one) => [one.name, one] as const)]);

/** Those that the deployment has a proxy or a command for; the embedded one (`null`) has all that its store can have. */
const possible = (target: Target | null, limiter: "sqlite" | "redis"): Experiment[] => {
  const all = [...experimentsFor(target).values()];
  if (target === null) return all.filter(({ store = limiter }) => store === limiter);
  const { toxiproxy, faults = {}, limits } = target;
  const canBreak = (fault: Fault): boolean =>
    faultKey(fault) in faults || (fault.by === "link" && toxiproxy?.proxies?.[fault.component] !== undefined);
  return all.filter(
    (experiment) =>
      experiment.faults.every(canBreak) && (experiment.pastTheCap !== true || limits?.global_in_flight !== undefined),
  );
};

/** Throws `UsageError`: a name that is not known, one that this store cannot have, or no way to break anything. */
export const chosenExperiments = (
  target: Target | null,
  names: readonly string[],
  short: boolean,
  limiter: "sqlite" | "redis" = "sqlite",
): readonly Experiment[] => {
  const known = experimentsFor(target);
  const all = [...known.keys()];
  const unknown = names.find((name) => !known.has(name));
  if (unknown !== undefined)
    throw new UsageError(noSuch("experiment", unknown, all, `there are:\n  ${all.join("\n  ")}`));
  if (names.length > 0) {
    const chosen = [...new Set(names)].map((name) => known.get(name) as Experiment);
    const wrong = target === null && chosen.find(({ store = limiter }) => store !== limiter);
    if (wrong) {
      throw new UsageError(`${wrong.name} needs a limiter in ${wrong.store}: expected --limiter ${wrong.store}`);
    }
    return chosen;
  }
  const here = possible(target, limiter);
  if (here.length === 0) {
    throw new UsageError(
      "the target file names no way to break a dependency: expected `toxiproxy` with `proxies` for limiter or keys, or `faults` with commands",
    );
  }
  const some = here.filter(({ name }) => SHORT_EXPERIMENTS.includes(name));
  return short && some.length > 0 ? some : here;
};

type ChaosWish = DeploymentWish &
  EmbeddedOptions & {
    /** Empty: all that the deployment can have. */
    names: readonly string[];
    short: boolean;
  };

type ChaosRun = Omit<RunRequest, "targets" | "profile" | "required"> & ChaosWish;

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

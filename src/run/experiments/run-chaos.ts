/** Plays the experiments of `chaos` one after the other: those named, or all that the deployment allows. */

import { noSuch } from "../../contract/nearest.ts";
import type { EmbeddedOptions } from "../../deployments/embedded.ts";
import { remoteProxy } from "../../deployments/from-target.ts";
import { whyNoWatchdog } from "../../deployments/remote-watch.ts";
import { EXPERIMENTS, type Experiment } from "../../faults/experiments.ts";
import { type Component, type Fault, faultKey } from "../../faults/fault.ts";
import { doubt } from "../../history/run-document.ts";
import type { StageOutcome } from "../../history/stage-facts.ts";
import {
  type DeploymentWish,
  GuardError,
  intentOf,
  type PreparedTarget,
  readTarget,
} from "../../stages/prepare-target.ts";
import type { StagesWish } from "../../stages/stage-plan.ts";
import type { Target } from "../../target/target.ts";
import { runStages } from "../bodies.ts";
import { UsageError } from "../exit-codes.ts";
import type { Asked, RunResult } from "../recorded-run.ts";
import { experimentStage, SHORT_EXPERIMENTS } from "../suites/suites.ts";
import { requireWholeProxies } from "./left-open.ts";

const KEY = /^(limiter|keys|api|service|edge)\.([a-z0-9][a-z0-9-]*)$/;

/** The experiments that the target file's commands cause; a name of the catalogue keeps the catalogue's entry. */
const byCommands = ({ faults = {} }: Target): Experiment[] =>
  Object.keys(faults).flatMap((key) => {
    const [, component, fault] = KEY.exec(key) ?? [];
    if (component === undefined || fault === undefined) {
      throw new UsageError(
        `faults of the target file: expected names such as "limiter.refused" (limiter, keys, api, edge or service, a dot, a fault in small letters), but got "${key}"`,
      );
    }
    // Only stages of scenarios break the service.
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

/** `names`: no name means all experiments that the deployment allows. */
type ChaosWish = { names: readonly string[]; short: boolean; limiter?: EmbeddedOptions["limiter"] };

/** Throws `UsageError` for an unknown name, for another store's experiment, or if nothing can be broken. */
export const chosenExperiments = (target: Target | null, wish: ChaosWish): readonly Experiment[] => {
  const { names, short, limiter = "sqlite" } = wish;
  const known = experimentsFor(target);
  const all = [...known.keys()];
  const isOfStore = ({ store = limiter }: Experiment): boolean => target !== null || store === limiter;
  const named = [...new Set(names)].map((name): Experiment => {
    const experiment = known.get(name);
    if (experiment === undefined)
      throw new UsageError(noSuch("experiment", name, all, `there are:\n  ${all.join("\n  ")}`));
    if (isOfStore(experiment)) return experiment;
    const { store } = experiment;
    throw new UsageError(`${name} needs a limiter in ${store}: expected --limiter ${store}`);
  });
  if (named.length > 0) return named;
  const { toxiproxy, faults: commands = {}, limits } = target ?? {};
  const canBreak = (fault: Fault): boolean =>
    faultKey(fault) in commands || (fault.by === "link" && toxiproxy?.proxies?.[fault.component] !== undefined);
  const canFill = limits?.global_in_flight !== undefined;
  // The embedded deployment allows all that its store allows, another one what it has proxies or commands for.
  const here = [...known.values()].filter((one) =>
    target === null ? isOfStore(one) : one.faults.every(canBreak) && (one.pastTheCap !== true || canFill),
  );
  if (here.length === 0) {
    throw new UsageError(
      "the target file names no way to break a dependency: expected `toxiproxy` with `proxies` for limiter or keys, or `faults` with commands",
    );
  }
  const some = here.filter(({ name }) => SHORT_EXPERIMENTS.includes(name));
  return short && some.length > 0 ? some : here;
};

export const chaosStages = (wish: ChaosWish): StagesWish => ({
  short: wish.short,
  stages: (given) =>
    chosenExperiments(given.embedded ? null : given.target, wish).map((entry) => experimentStage(given, entry)),
});

/** Says why no fault may be injected, beside the guard's reasons; applies on loopback too. */
export const chaosRefusals = (target: Target): string[] => {
  const remote = remoteProxy(target);
  const isPermitted = target.permits?.chaos === true;
  return [
    ...(isPermitted ? [] : ["faults would be injected and permits.chaos is not true in the target file"]),
    ...(remote === null ? [] : [remote]),
  ];
};

type ChaosRun = Asked & DeploymentWish & EmbeddedOptions & ChaosWish;

const prepare = async (request: ChaosRun, targetFile: string): Promise<PreparedTarget> => {
  const prepared = await readTarget(targetFile, request.owned, intentOf(chaosStages(request)));
  const { target, refusals } = prepared;
  const all = [...chaosRefusals(target), ...refusals];
  if (all.length > 0) throw new GuardError(all);
  if (target.watchdog !== undefined) {
    const { url, token } = target.watchdog;
    const read = token === undefined ? null : await prepared.secrets.read(token, "watchdog.token");
    const missing = await whyNoWatchdog({ url, token: read });
    if (missing !== null) throw new GuardError([missing]);
  }
  return prepared;
};

const isStillHit = ({ claims, summary, didNotRecover }: StageOutcome): boolean =>
  didNotRecover === true || claims.some(({ id, verdict }) => verdict === "fail" && id === `recovers/${summary.name}`);

/** Throws for a user's mistake before anything begins: names, target file, guard, lock, a proxy that is not whole. */
export const runChaos = async (request: ChaosRun): Promise<RunResult> => {
  const { targetFile, replay } = request;
  const prepared = targetFile === undefined ? undefined : await prepare(request, targetFile);
  const chosen = chosenExperiments(prepared?.target ?? null, request);
  const broken = new Set(chosen.flatMap(({ faults }) => faults.map(({ component }) => component)));
  return runStages({
    ...{ ...request, profile: "chaos", stages: chaosStages(request), uncalibrated: true, prepared },
    checkTargets: async () => prepared && requireWholeProxies(prepared.target, broken),
    required: () => request.names.map((name) => `reached/${name}`),
    // A user's deployment that has not recovered is not broken further.
    isEnough: (context, deployment) => (outcome, left) => {
      if (left.length === 0 || deployment.embedded || !isStillHit(outcome)) return false;
      const why = `the deployment did not recover from ${outcome.summary.name}; ${left.length} further experiments were not begun: ${left.map(({ name }) => name).join(", ")}`;
      context.events.result(`  ${why}`);
      context.add({ claims: [doubt("run/completed", why, "every experiment is played", replay)] });
      return true;
    },
  });
};

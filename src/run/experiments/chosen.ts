/** Which experiments a command plays: those that were named, or all that the deployment can have. */

import { noSuch } from "../../contract/nearest.ts";
import { EXPERIMENTS, type Experiment } from "../../faults/experiments.ts";
import { type Component, type Fault, faultKey } from "../../faults/fault.ts";
import type { Target } from "../../target/target.ts";
import { UsageError } from "../exit-codes.ts";

/** With `--short`, as in the main job: the dependency is gone, or silent after it has done what it was asked. */
const SHORT = ["limiter-refused", "limiter-reply-lost", "keys-refused", "keys-reply-lost"];
const KEY = /^(limiter|keys|api|service|edge)\.([a-z0-9][a-z0-9-]*)$/;
/** What stages of scenarios do, and no experiment. */
const OF_SCENARIOS = "service";

/** The experiments that a target file's own commands bring about; those of the catalogue keep what must hold of them. */
const byCommands = ({ faults = {} }: Target): Experiment[] =>
  Object.keys(faults).flatMap((key) => {
    const [, component, fault] = KEY.exec(key) ?? [];
    if (component === undefined || fault === undefined) {
      throw new UsageError(
        `faults of the target file: expected names such as "limiter.refused" (limiter, keys, api, edge or service, a dot, a fault in small letters), but got "${key}"`,
      );
    }
    if (component === OF_SCENARIOS) return [];
    const known = EXPERIMENTS.get(`${component}-${fault}`);
    return (
      known ?? {
        name: `${component}-${fault}`,
        faults: [{ by: "commands", component: component as Component, fault }],
        refuses: "some",
        holds: "what is refused because of it is refused as the contract says, and what is admitted is charged once",
      }
    );
  });

/** All of the catalogue, and what the target file adds. */
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
  const unknown = names.find((name) => !known.has(name));
  if (unknown !== undefined) {
    throw new UsageError(
      noSuch("experiment", unknown, known.keys(), `there are:\n  ${[...known.keys()].join("\n  ")}`),
    );
  }
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
  const some = here.filter(({ name }) => SHORT.includes(name));
  return short && some.length > 0 ? some : here;
};

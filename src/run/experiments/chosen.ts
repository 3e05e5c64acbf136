/** Which experiments a command plays: those that were named, or all that the deployment can have. */
import { EXPERIMENTS } from "../../chaos/experiments/catalogue.ts";
import type { LinkExperiment } from "../../chaos/experiments/link-experiment.ts";
import type { Target } from "../../target/target.ts";

/** A user's mistake. */
export class UsageError extends Error {
  override name = "UsageError";
}

/** With `--short`, as in the main job: the dependency is gone, or silent after it has done what it was asked. */
const SHORT_FAULTS = ["refused", "reply-lost"];
const KEY = /^(limiter|keys)\.([a-z0-9][a-z0-9-]*)$/;

/** The experiments that a target file's own commands bring about; those of the catalogue keep what must hold of them. */
const byCommands = ({ faults = {} }: Target): LinkExperiment[] =>
  Object.keys(faults).map((key) => {
    const [, link, fault] = KEY.exec(key) ?? [];
    if (link === undefined || fault === undefined) {
      throw new UsageError(
        `faults of the target file: expected names such as "limiter.refused" (limiter or keys, a dot, a fault in small letters), but got "${key}"`,
      );
    }
    const known = EXPERIMENTS.get(`${link}-${fault}`);
    return (
      known ?? {
        name: `${link}-${fault}`,
        link: link as LinkExperiment["link"],
        fault,
        refuses: "some",
        holds: "what is refused because of it is refused as the contract says, and what is admitted is charged once",
      }
    );
  });

/** All of the catalogue, and what the target file adds. */
export const experimentsFor = (target: Target | null): ReadonlyMap<string, LinkExperiment> =>
  new Map([...EXPERIMENTS, ...(target === null ? [] : byCommands(target)).map((one) => [one.name, one] as const)]);

/** Those that the deployment has a proxy or a command for; `null` stands for the embedded one, which has all. */
const possible = (target: Target | null): LinkExperiment[] => {
  const all = [...experimentsFor(target).values()];
  if (target === null) return all;
  const { toxiproxy, faults = {} } = target;
  return all.filter(
    ({ name, link, fault }) =>
      `${link}.${fault}` in faults || (toxiproxy?.proxies[link] !== undefined && EXPERIMENTS.has(name)),
  );
};

/** Throws `UsageError`: a name that is not known, or a target file with no way to break anything. */
export const chosenExperiments = (
  target: Target | null,
  names: readonly string[],
  short: boolean,
): readonly LinkExperiment[] => {
  const known = experimentsFor(target);
  const unknown = names.filter((name) => !known.has(name));
  if (unknown.length > 0) {
    throw new UsageError(
      `there is no experiment ${unknown.map((name) => `"${name}"`).join(", ")}; there are:\n  ${[...known.keys()].join("\n  ")}`,
    );
  }
  if (names.length > 0) return [...new Set(names)].map((name) => known.get(name) as LinkExperiment);
  const here = possible(target);
  if (here.length === 0) {
    throw new UsageError(
      "the target file names no way to break a dependency: expected `toxiproxy` with `proxies` for limiter or keys, or `faults` with commands",
    );
  }
  const some = here.filter(({ fault }) => SHORT_FAULTS.includes(fault));
  return short && some.length > 0 ? some : here;
};

/** Prepares a target file for a run: reads and checks it, masks its secrets, asks the safety guard. Sends nothing. */
import { parseHttpUrl } from "../contract/address.ts";
import { isLoopbackHost } from "../contract/loopback.ts";
import { nearest } from "../contract/nearest.ts";
import { EXPERIMENTS } from "../faults/experiments.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { CLAIM_FAMILIES } from "../report/claim-families.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { readTargetFile, TargetFileError } from "../target/target-file.ts";
import { guardTarget, type Intent } from "../target/target-guard.ts";
import { RULES } from "../verify/catalogue.ts";
import { guardBudget, statedBudget } from "../workload/budget.ts";
import { STORIES } from "../workload/catalogue.ts";
import { checkObjectives } from "./objectives.ts";

const groupOf = (name: string): string => name.split("/")[0] as string;

const GROUPS: ReadonlySet<string> = new Set([
  ...INVARIANTS.map(({ id }) => id),
  ...CLAIM_FAMILIES.map(({ pattern }) => groupOf(pattern)),
  ...["load", "chaos", "verify", "verify-alone"],
]);

const STAGES: ReadonlySet<string> = new Set([...STORIES.keys(), ...EXPERIMENTS.keys(), "deployment-states"]);
const RULE_IDS: ReadonlySet<string> = new Set(RULES.map(({ id }) => id));

/** The known name nearest to an unknown one in `required`; an unwarned user would get an inconclusive run. */
const meantBy = (name: string): string | null => {
  const [group = "", part] = name.split("/");
  const parts = group === "verify" ? RULE_IDS : STAGES;
  if (part === undefined) return GROUPS.has(name) || STAGES.has(name) ? null : nearest(name, [...GROUPS, ...STAGES]);
  const meantGroup = GROUPS.has(group) ? group : nearest(group, GROUPS);
  const meantPart = parts.has(part) ? part : nearest(part, parts);
  const meant = `${meantGroup}/${meantPart}`;
  return meantGroup === null || meantPart === null || name === meant ? null : meant;
};

export const misspeltRequired = ({ required = [] }: Pick<Target, "required">): string[] =>
  required.flatMap((name) => {
    const meant = meantBy(name);
    return meant === null ? [] : [`required: no claim is known as ${name}; did you mean ${meant}?`];
  });

export class GuardError extends Error {
  override name = "GuardError";
  constructor(reasons: readonly string[]) {
    super(`refused by the safety guard:\n${reasons.map((reason) => `  ${reason}`).join("\n")}`);
  }
}

export type PreparedTarget = Awaited<ReturnType<typeof readTarget>>;

/** The intent that the guard judges, or a function that derives it from the target file. */
type IntentWish = Intent | ((target: Target) => Intent);

const inClear = ({ base_url, key_management_url, tile_url }: Target): string[] =>
  Object.entries({ base_url, key_management_url, tile_url }).flatMap(([field, url]) => {
    if (url === undefined) return [];
    const { scheme, host } = parseHttpUrl(url);
    return scheme === "https" || isLoopbackHost(host)
      ? []
      : [`${field} is plain http:// to ${host}: keys travel there in clear; write https:// if it can`];
  });

/** `owned`: hosts that the user named with `--i-own`. Throws `TargetFileError`, `ObjectiveError`. */
export const readTarget = async (file: string, owned: readonly string[], intent: IntentWish) => {
  const { target, folder, warnings } = await readTargetFile(file);
  checkObjectives(target);
  if (target.transport?.protocol === "h2" && target.base_url.startsWith("http:")) {
    const expected = 'expected "h1" for an http:// address; HTTP/2 is agreed upon over TLS only, and got "h2"';
    throw new TargetFileError(file, [`transport.protocol: ${expected}`]);
  }
  return {
    file,
    target,
    warnings: [...warnings, ...misspeltRequired(target), ...inClear(target)],
    budget: guardBudget(statedBudget(target)),
    secrets: createSecrets(folder),
    refusals: await guardTarget(target, owned, typeof intent === "function" ? intent(target) : intent),
  };
};

/** Like `readTarget`, for a run that will send: throws `GuardError` if the guard refuses. */
export const prepareTarget = async (
  file: string,
  owned: readonly string[],
  intent: IntentWish,
): Promise<PreparedTarget> => {
  const prepared = await readTarget(file, owned, intent);
  if (prepared.refusals.length > 0) throw new GuardError(prepared.refusals);
  return prepared;
};

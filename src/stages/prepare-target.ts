/** Prepares a target file for a run: reads and checks it, masks its secrets, asks the safety guard. Sends nothing. */

import { parseHttpUrl } from "../contract/address.ts";
import { isLoopbackHost } from "../contract/loopback.ts";
import { nearest } from "../contract/nearest.ts";
import type { EmbeddedOptions } from "../deployments/embedded.ts";
import { proxiesMissing } from "../deployments/from-target.ts";
import { plannedEmbedded, plannedTenants } from "../deployments/tenants.ts";
import { EXPERIMENTS } from "../faults/experiments.ts";
import { groupOf } from "../history/run-document.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { CLAIM_FAMILIES } from "../report/claim-families.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { readTargetFile, TargetFileError } from "../target/target-file.ts";
import { guardTarget, type Intent } from "../target/target-guard.ts";
import { chosenRules, RULES } from "../verify/catalogue.ts";
import { planVerify } from "../verify/planning/plan.ts";
import { guardBudget, statedBudget } from "../workload/budget.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { STORIES } from "../workload/catalogue.ts";
import { profileCalls, profileDurationS } from "../workload/load-profiles.ts";
import { checkObjectives } from "./stage-claims.ts";
import {
  driverOf,
  type LoadStage,
  plannedFor,
  type StagesWish,
  type SuiteFor,
  stageMissing,
  stagesFor,
  storyOfPlan,
  type VerifyStage,
} from "./stage-plan.ts";

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
export const prepareTarget = async (file: string, owned: readonly string[], intent: IntentWish) => {
  const prepared = await readTarget(file, owned, intent);
  if (prepared.refusals.length > 0) throw new GuardError(prepared.refusals);
  return prepared;
};

export type DeploymentWish = { targetFile?: string; owned: readonly string[] };

export type PlanRequest = DeploymentWish &
  Partial<EmbeddedOptions> & {
    stages: StagesWish;
    /** Why the command would refuse this target, beside the guard's own reasons. */
    refusals?(target: Target): readonly string[];
  };

export type PlannedTarget = ReturnType<typeof plannedTarget>;

export const plannedTarget = ({ name, base_url, budget }: Target) => ({
  name: name ?? base_url,
  base_url,
  budget: { ...budget } as Record<string, number>,
});

export const planStages = async ({ targetFile, owned, limiter = "sqlite", stages: wish, refusals }: PlanRequest) => {
  const embedded = targetFile === undefined;
  const read = embedded ? null : await readTarget(targetFile, owned, intentOf(wish));
  const target = read?.target ?? plannedEmbedded();
  const stages = plansFor({ target, embedded, limiter }, wish);
  const sum = (field: "seconds" | "calls"): number => stages.reduce((all, stage) => all + stage[field], 0);
  const [most, sent] = [target.budget?.requests ?? Number.POSITIVE_INFINITY, sum("calls")];
  const ends = `budget.requests (${most}) may end the run before its last stage, since up to ${sent} calls are planned: raise it, or choose a shorter run`;
  return {
    schema: "floodgate/plan@1",
    target: plannedTarget(target),
    stages,
    total: { seconds: sum("seconds"), calls: sent },
    refused_by_guard: read === null ? [] : [...read.refusals, ...(refusals?.(read.target) ?? [])],
    warnings: [...(read?.warnings ?? []), ...(sent > most && read?.refusals.length === 0 ? [ends] : [])],
  };
};

const VERIFY_CALLS = 1_200;
/** Seconds that a plan adds for verify's bursts: they are not paced, so they last as long as their answers take. */
const BURSTS_S = 30;
const RATE_UNKNOWN_S = 20;
const RATE_UNKNOWN_PER_S = 200;
const RAMP_S = 24;
/** The planned seconds of an experiment, which ends its load when it is over. */
const EXPERIMENT_S = 15;

const NOTHING_PLAYED = { seconds: 0, calls: 0 };

const plannedRules = (plan: VerifyStage, target: Target) => {
  if (plan.only === undefined) return { seconds: Math.ceil(VERIFY_CALLS / plan.ratePerS), calls: VERIFY_CALLS };
  const { would_send, takes_s_at_least } = planVerify(target, chosenRules(plan.only, plan.skip), plan);
  return { seconds: takes_s_at_least + BURSTS_S, calls: would_send.calls };
};

/** `target`: with the tenants of the stage. */
const plannedPlay = (plan: LoadStage, target: Target, embedded: boolean) => {
  const { disturbance, replicas } = plan;
  const sized = embedded && replicas !== undefined ? { ...target, limits: { ...target.limits, replicas } } : target;
  const planned = plannedFor(plan, { target: sized, embedded, found: {} });
  // A ramp finds the rate first; until then only the permitted one is known.
  if (planned === null) {
    const seconds = (plan.durationS ?? RATE_UNKNOWN_S) + RAMP_S;
    return { seconds, calls: Math.ceil(seconds * (target.permits?.load_max_rps ?? RATE_UNKNOWN_PER_S)) };
  }
  const whole = profileDurationS(planned.profile);
  const isExperiment = disturbance !== undefined && disturbance.kind !== "fault-schedule";
  const calmS = disturbance?.kind === "faults" ? (disturbance.calmMs ?? 0) / 1000 : 0;
  const seconds = isExperiment ? Math.min(whole, EXPERIMENT_S + calmS) : whole;
  const due = (profileCalls(planned.profile) * seconds) / whole;
  // The calls include retries, further steps and sessions fetched beforehand.
  return { seconds: Math.ceil(seconds), calls: Math.ceil(storyOfPlan(plan).costs(viewOf(sized), due).requests) };
};

/** Each stage as far as it is known beforehand. `lacks`: why it would be skipped; empty when it would be played. */
const plansFor = (given: SuiteFor, wish: StagesWish) => {
  const { target, embedded, limiter } = given;
  const missing = embedded ? null : proxiesMissing(target);
  const links = embedded ? { limiter: "", keys: "", edge: "" } : (target.toxiproxy?.proxies ?? {});
  const [faults, faultsMissing] = missing === null ? [{ links }, ""] : [null, missing];
  const own = embedded ? { store: { kind: limiter ?? "sqlite" } } : undefined;
  return stagesFor(given, wish).map((plan) => {
    const about = { name: plan.name, driver: driverOf(plan) };
    if (plan.kind === "verify") return { ...about, ...plannedRules(plan, target), lacks: [] };
    const peopled = embedded ? plannedTenants(plan.tenants, target) : target;
    const lacks = stageMissing(plan, { target: peopled, faults, faultsMissing, own });
    return { ...about, ...(lacks.length > 0 ? NOTHING_PLAYED : plannedPlay(plan, peopled, embedded)), lacks };
  });
};

/** The intent that the safety guard judges; only stages that could be played count. */
export const intentOf =
  (wish: StagesWish) =>
  (target: Target): Intent => {
    const given = { target, embedded: false };
    const loads = stagesFor(given, wish).filter((plan) => plan.kind === "load");
    return {
      load: loads.length > 0,
      // An operator's changes are no faults.
      faults:
        target.permits?.chaos === true &&
        loads.some(({ disturbance: { kind } = {} }) => kind !== undefined && kind !== "operator-changes"),
      requests: plansFor(given, wish).reduce((sum, { calls }) => sum + calls, 0),
    };
  };

/** Which stages a command plays on a deployment and what they would send, without sending anything. */

import type { EmbeddedOptions } from "../deployments/embedded.ts";
import { remoteProxy } from "../deployments/from-target.ts";
import { plannedEmbedded, plannedTenants } from "../deployments/tenants.ts";
import type { FaultCapabilities } from "../faults/capabilities.ts";
import type { Target } from "../target/target.ts";
import type { Intent } from "../target/target-guard.ts";
import { chosenRules } from "../verify/catalogue.ts";
import { planVerify } from "../verify/planning/plan.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { STORIES } from "../workload/catalogue.ts";
import { profileCalls, profileDurationS } from "../workload/load-profiles.ts";
import { plannedFor, stageMissing, storyOfPlan } from "./planned-load.ts";
import { readTarget } from "./prepare-target.ts";
import { driverOf, type LoadStage, type StagePlan, type SuiteFor, shortened, type VerifyStage } from "./stage-plan.ts";

export type DeploymentWish = { targetFile?: string; owned: readonly string[] };

export type StagesWish = {
  stages(given: SuiteFor): StagePlan[];
  short: boolean;
};

export type PlanRequest = DeploymentWish &
  Partial<EmbeddedOptions> & {
    stages: StagesWish;
    /** Why the command would refuse this target, beside the guard's own reasons. */
    refusals?(target: Target): readonly string[];
  };

export type PlannedTarget = { name: string; base_url: string; budget: Record<string, number> };

export const plannedTarget = ({ name, base_url, budget }: Target): PlannedTarget => ({
  name: name ?? base_url,
  base_url,
  budget: { ...budget } as Record<string, number>,
});

export const stagesFor = (given: SuiteFor, { stages, short }: StagesWish): StagePlan[] =>
  stages(given).map((plan) => (short ? shortened(plan) : plan));

/** Why no faults could be injected. What shows only on contact is assumed to be there. */
const faultsMissing = (target: Target): string | null => {
  if (target.toxiproxy === undefined) return "`toxiproxy` is not in the target file";
  return target.permits?.chaos === true ? remoteProxy(target) : "permits.chaos of the target file is not true";
};

export const planStages = async ({ targetFile, owned, limiter = "sqlite", stages: wish, refusals }: PlanRequest) => {
  const embedded = targetFile === undefined;
  const read = embedded ? null : await readTarget(targetFile, owned, intentOf(wish));
  const target = read?.target ?? plannedEmbedded();
  const without = embedded ? null : faultsMissing(target);
  const given: SuiteFor = { target, embedded, limiter };
  const stages = stagesFor(given, wish).map((plan) => {
    if (plan.kind === "verify") return planOfStage(plan, given);
    const can: FaultCapabilities = {
      target: embedded ? plannedTenants(plan.tenants, target) : target,
      isProxied: (link) => without === null && (embedded || target.toxiproxy?.proxies?.[link] !== undefined),
      proxyMissing: without ?? "",
      ownStore: embedded ? limiter : null,
    };
    return planOfStage(plan, given, stageMissing(plan, can));
  });
  const sum = (field: "seconds" | "calls"): number => stages.reduce((all, stage) => all + stage[field], 0);
  return {
    schema: "floodgate/plan@1",
    target: plannedTarget(target),
    stages,
    total: { seconds: sum("seconds"), calls: sum("calls") },
    refused_by_guard: read === null ? [] : [...read.refusals, ...(refusals?.(read.target) ?? [])],
    warnings: read?.warnings ?? [],
  };
};

const VERIFY_CALLS = 1_200;
/** Bursts of those rules are not paced; how long they take depends on the answers. */
const BURSTS_S = 30;
/** Of a stage whose rate a ramp has to find. */
const RATE_UNKNOWN_S = 20;
const RATE_UNKNOWN_PER_S = 200;
const RAMP_S = 24;
/** A link's experiment ends its load when it is over. */
const EXPERIMENT_S = 15;

const plannedRules = (plan: VerifyStage, target: Target) => {
  if (plan.only === undefined) return { seconds: Math.ceil(VERIFY_CALLS / plan.ratePerS), calls: VERIFY_CALLS };
  const { would_send, takes_s_at_least } = planVerify(target, chosenRules(plan.only, plan.skip), plan);
  return { seconds: takes_s_at_least + BURSTS_S, calls: would_send.calls };
};

const plannedPlay = (plan: LoadStage, { target, embedded }: SuiteFor) => {
  const { disturbance, replicas } = plan;
  const peopled = embedded ? plannedTenants(plan.tenants, target) : target;
  const sized = embedded && replicas !== undefined ? { ...peopled, limits: { ...target.limits, replicas } } : peopled;
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
  // With the retries and further steps of each, and sessions beforehand.
  return { seconds: Math.ceil(seconds), calls: Math.ceil(storyOfPlan(plan).costs(viewOf(sized), due).requests) };
};

/** `lacks`: why it would be skipped; empty when it would be played. */
const planOfStage = (plan: StagePlan, given: SuiteFor, lacks: readonly string[] = []) => {
  const planned =
    plan.kind === "verify"
      ? plannedRules(plan, given.target)
      : lacks.length > 0
        ? { seconds: 0, calls: 0 }
        : plannedPlay(plan, given);
  return { name: plan.name, driver: driverOf(plan), ...planned, lacks };
};

/** What the safety guard is asked: only stages that could be played count. */
export const intentOf =
  (wish: StagesWish) =>
  (target: Target): Intent => {
    const given = { target, embedded: false };
    const plans = stagesFor(given, wish);
    const loads = plans.filter((plan) => plan.kind === "load");
    const lacks = (plan: StagePlan) =>
      plan.kind === "load" ? (STORIES.get(plan.story)?.missing(viewOf(target)) ?? []) : [];
    return {
      load: loads.length > 0,
      // An operator's changes break no link.
      faults:
        target.permits?.chaos === true &&
        loads.some(({ disturbance: { kind } = {} }) => kind !== undefined && kind !== "operator-changes"),
      requests: plans.reduce((sum, plan) => sum + planOfStage(plan, given, lacks(plan)).calls, 0),
    };
  };

/** Which stages a command plays on a deployment and what they would send, without sending anything. */

import type { EmbeddedOptions } from "../deployments/embedded.ts";
import { remoteProxy } from "../deployments/from-target.ts";
import { plannedEmbedded, plannedTenants } from "../deployments/tenants.ts";
import type { FaultCapabilities } from "../faults/capabilities.ts";
import type { Disturbance } from "../faults/disturbance.ts";
import type { Target } from "../target/target.ts";
import type { Intent } from "../target/target-guard.ts";
import { chosenRules } from "../verify/catalogue.ts";
import { planVerify } from "../verify/planning/plan.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { STORIES } from "../workload/catalogue.ts";
import { profileCalls, profileDurationS } from "../workload/load-profiles.ts";
import { plannedFor, stageMissing, storyOfPlan } from "./planned-load.ts";
import { readTarget } from "./prepare-target.ts";
import { type StagePlan, type SuiteFor, shortened, type VerifyStage } from "./stage-plan.ts";

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

type StagesPlan = {
  schema: "floodgate/plan@1";
  target: PlannedTarget;
  stages: PlannedStage[];
  total: { seconds: number; calls: number };
  refused_by_guard: readonly string[];
  warnings: readonly string[];
};

/** Why no faults could be injected. What shows only on contact is assumed to be there. */
const faultsMissing = (target: Target): string | null => {
  if (target.toxiproxy === undefined) return "`toxiproxy` is not in the target file";
  return target.permits?.chaos === true ? remoteProxy(target) : "permits.chaos of the target file is not true";
};

export const planStages = async ({
  targetFile,
  owned,
  limiter = "sqlite",
  stages: wish,
  refusals,
}: PlanRequest): Promise<StagesPlan> => {
  const embedded = targetFile === undefined;
  const read = embedded ? null : await readTarget(targetFile, owned, intentOf(wish));
  const target = read?.target ?? plannedEmbedded();
  const without = embedded ? null : faultsMissing(target);
  const can: FaultCapabilities = {
    target,
    isProxied: (link) => without === null && (embedded || target.toxiproxy?.proxies?.[link] !== undefined),
    proxyMissing: without ?? "",
    ownStore: embedded ? limiter : null,
  };
  const stages = stagesFor({ target, embedded, limiter }, wish).map((plan) => {
    if (plan.kind === "verify") return planOfStage(plan, { target, embedded }, []);
    return planOfStage(
      plan,
      { target, embedded },
      stageMissing(plan, embedded ? { ...can, target: plannedTenants(plan.tenants, target) } : can),
    );
  });
  return {
    schema: "floodgate/plan@1",
    target: plannedTarget(target),
    stages,
    total: {
      seconds: stages.reduce((sum, { seconds }) => sum + seconds, 0),
      calls: stages.reduce((sum, { calls }) => sum + calls, 0),
    },
    refused_by_guard: read === null ? [] : [...read.refusals, ...(refusals?.(read.target) ?? [])],
    warnings: read?.warnings ?? [],
  };
};

export type DeploymentWish = { targetFile?: string; owned: readonly string[] };

export type StagesWish = {
  stages(given: SuiteFor): StagePlan[];
  short: boolean;
};

export const stagesFor = (given: SuiteFor, { stages, short }: StagesWish): StagePlan[] =>
  stages(given).map((plan) => (short ? shortened(plan) : plan));

const VERIFY_CALLS = 1_200;
/** Bursts of those rules are not paced; how long they take depends on the answers. */
const BURSTS_S = 30;
const plannedRules = (plan: VerifyStage, only: readonly string[], target: Target) => {
  const { would_send, takes_s_at_least } = planVerify(target, chosenRules(only, plan.skip), plan);
  return { seconds: takes_s_at_least + BURSTS_S, calls: would_send.calls };
};
/** Of a stage whose rate a ramp has to find. */
const RATE_UNKNOWN_S = 20;
const RATE_UNKNOWN_PER_S = 200;
const RAMP_S = 24;
/** A link's experiment ends its load when it is over. */
const EXPERIMENT_S = 15;

type PlannedStage = {
  name: string;
  driver: string;
  seconds: number;
  calls: number;
  /** Why it would be skipped; empty when it would be played. */
  lacks: readonly string[];
};

const breaksLinks = ({ kind }: Disturbance): boolean => kind !== "operator-changes";

const planOfStage = (plan: StagePlan, { target, embedded }: SuiteFor, lacks: readonly string[]): PlannedStage => {
  if (plan.kind === "verify") {
    const planned =
      plan.only === undefined
        ? { seconds: Math.ceil(VERIFY_CALLS / plan.ratePerS), calls: VERIFY_CALLS }
        : plannedRules(plan, plan.only, target);
    return { name: plan.name, driver: "verify", ...planned, lacks };
  }
  const { name, driver } = plan;
  if (lacks.length > 0) return { name, driver, seconds: 0, calls: 0, lacks };
  const { replicas } = plan;
  const peopled = embedded ? plannedTenants(plan.tenants, target) : target;
  const sized = embedded && replicas !== undefined ? { ...peopled, limits: { ...target.limits, replicas } } : peopled;
  const planned = plannedFor(plan, { target: sized, embedded, found: {} });
  // A ramp finds the rate first; until then only the permitted one is known.
  if (planned === null) {
    const seconds = (plan.durationS ?? RATE_UNKNOWN_S) + RAMP_S;
    return {
      name,
      driver,
      seconds,
      calls: Math.ceil(seconds * (target.permits?.load_max_rps ?? RATE_UNKNOWN_PER_S)),
      lacks,
    };
  }
  const whole = profileDurationS(planned.profile);
  const isExperiment = plan.disturbance !== undefined && plan.disturbance.kind !== "fault-schedule";
  const { disturbance } = plan;
  const calmS = disturbance?.kind === "faults" ? (disturbance.calmMs ?? 0) / 1000 : 0;
  const seconds = isExperiment ? Math.min(whole, EXPERIMENT_S + calmS) : whole;
  const due = (profileCalls(planned.profile) * seconds) / whole;
  // With the retries and further steps of each, and sessions beforehand.
  const calls = Math.ceil(storyOfPlan(plan).costs(viewOf(sized), due).requests);
  return { name, driver, seconds: Math.ceil(seconds), calls, lacks };
};

/** What the safety guard is asked: only stages that could be played count. */
export const intentOf =
  (wish: StagesWish) =>
  (target: Target): Intent => {
    const given = { target, embedded: false };
    const plans = stagesFor(given, wish);
    const planned = plans.map((plan) => {
      const story = plan.kind === "load" ? STORIES.get(plan.story) : undefined;
      return planOfStage(plan, given, story?.missing(viewOf(target)) ?? []);
    });
    return {
      load: plans.some(({ kind }) => kind === "load"),
      faults:
        target.permits?.chaos === true &&
        plans.some((plan) => plan.kind === "load" && plan.disturbance !== undefined && breaksLinks(plan.disturbance)),
      requests: planned.reduce((sum, { calls }) => sum + calls, 0),
    };
  };

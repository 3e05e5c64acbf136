/** Which stages a command plays on a deployment, and what they would send and spend: worked out without sending anything. */
import type { Target } from "../target/target.ts";
import { readTargetFile } from "../target/target-file.ts";
import type { Intent } from "../target/target-guard.ts";
import { viewOf } from "../target/view-of-target.ts";
import { STORIES } from "../workload/catalogue.ts";
import { profileCalls, profileDurationS } from "../workload/load-profiles.ts";
import { plannedProfile } from "./planned-profile.ts";
import type { StagePlan } from "./stage-plan.ts";
import type { SuiteFor } from "./suites/suite.ts";
import { shortened } from "./suites/suite.ts";

export type DeploymentWish = { targetFile?: string; owned: readonly string[] };

export type StagesWish = {
  stages(given: SuiteFor): StagePlan[];
  short: boolean;
};

export const stagesFor = (given: SuiteFor, { stages, short }: StagesWish): StagePlan[] =>
  stages(given).map((plan) => (short ? shortened(plan) : plan));

/** A whole pass of the rules at the most. */
const VERIFY_CALLS = 1_200;
/** A link's experiment ends its load when it is over. */
const EXPERIMENT_S = 15;

export type PlannedStage = {
  name: string;
  driver: string;
  seconds: number;
  calls: number;
  /** Why it would be skipped; empty when it would be played. */
  lacks: readonly string[];
};

export const planOfStage = (plan: StagePlan, target: Target, lacks: readonly string[]): PlannedStage => {
  if (plan.kind === "verify") {
    return {
      name: plan.name,
      driver: "verify",
      seconds: Math.ceil(VERIFY_CALLS / plan.ratePerS),
      calls: VERIFY_CALLS,
      lacks,
    };
  }
  const { name, driver } = plan;
  const story = STORIES.get(plan.story);
  if (story === undefined) throw new Error(`stage ${name}: there is no story "${plan.story}"`);
  if (lacks.length > 0) return { name, driver, seconds: 0, calls: 0, lacks };
  const { profile } = plannedProfile(plan, story, viewOf(target), target.permits?.load_max_rps);
  const whole = profileDurationS(profile);
  const seconds = plan.disturbance === undefined ? whole : Math.min(whole, EXPERIMENT_S);
  return {
    name,
    driver,
    seconds: Math.ceil(seconds),
    calls: Math.ceil((profileCalls(profile) * seconds) / whole),
    lacks,
  };
};

/** What the safety guard is asked: only stages that could be played count. */
export const intentOf = async (targetFile: string, wish: StagesWish): Promise<Intent> => {
  const { target } = await readTargetFile(targetFile);
  const plans = stagesFor({ target, embedded: false }, wish);
  const planned = plans.map((plan) => {
    const story = plan.kind === "load" ? STORIES.get(plan.story) : undefined;
    return planOfStage(plan, target, story?.missing(viewOf(target)) ?? []);
  });
  return {
    load: plans.some(({ kind }) => kind === "load"),
    faults:
      target.permits?.chaos === true &&
      plans.some((plan) => plan.kind === "load" && plan.disturbance?.kind === "link-fault"),
    requests: planned.reduce((sum, { calls }) => sum + calls, 0),
  };
};

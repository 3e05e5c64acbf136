/** Plans which stages a command plays on a deployment, with which load, and what they would send. */
import type { Deployment } from "../deployments/deployment.ts";
import type { EmbeddedOptions } from "../deployments/embedded.ts";
import { proxiesMissing } from "../deployments/from-target.ts";
import { plannedEmbedded, plannedTenants } from "../deployments/tenants.ts";
import { type Disturbable, disturbanceMissing } from "../faults/capabilities.ts";
import type { Target } from "../target/target.ts";
import type { Intent } from "../target/target-guard.ts";
import { chosenRules } from "../verify/catalogue.ts";
import { planVerify } from "../verify/planning/plan.ts";
import type { Arrivals } from "../workload/arrivals.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import { type TenantReadings, viewOf } from "../workload/callers/view-of-target.ts";
import { STORIES } from "../workload/catalogue.ts";
import {
  constant,
  PROFILES,
  type Profile,
  profileCalls,
  profileDurationS,
  profilePeakPerS,
  scaleProfile,
  traceProfile,
} from "../workload/load-profiles.ts";
import { type Reach, SHARE_OF_PERMIT, type Story } from "../workload/story.ts";
import { readTarget } from "./prepare-target.ts";
import { driverOf, type LoadStage, type StagePlan, type SuiteFor, shortened, type VerifyStage } from "./stage-plan.ts";

/** Above this share of the permitted rate arrivals are uniform: the permit would hold back random bursts. */
const SHARE_FOR_POISSON = 0.6;

/** `slowedTo`: the share of its speed at which a log is replayed, if its peak exceeds the permitted rate. */
type PlannedLoad = { profile: Profile; arrivals: Arrivals; reach: Reach; slowedTo?: number };

const capMissing = ({ pastTheCap, ratePerS = 0 }: LoadStage, { limits, permits }: Target): string[] => {
  if (pastTheCap !== true) return [];
  if (limits?.global_in_flight === undefined) return ["`limits.global_in_flight` (to load past it)"];
  const mostPerS = SHARE_OF_PERMIT * (permits?.load_max_rps ?? Number.POSITIVE_INFINITY);
  return mostPerS >= ratePerS ? [] : [`\`permits.load_max_rps\` of ${Math.ceil(ratePerS / SHARE_OF_PERMIT)} or more`];
};

/** A replayed log fixes the load, so reaching the target outcomes is optional. */
const reachOfReplay = ({ all, oneOf, beyond }: Reach): Reach => {
  const reason = "the replayed log sets the load";
  const free = [...all, ...oneOf].filter((outcome) => outcome !== "200");
  const owed = all.filter((outcome) => outcome === "200");
  return { all: owed, oneOf: [], beyond: [...beyond, ...free.map((outcome) => ({ outcome, reason }))] };
};

/** A log has its own rate and length unless the user states others. */
const wantedProfile = ({ loadProfile, replayOfMs, ratePerS, durationS }: LoadStage, own: Profile): Profile => {
  if (replayOfMs !== undefined) return traceProfile(replayOfMs, { ratePerS, durationS });
  const shape = loadProfile === undefined ? undefined : PROFILES[loadProfile];
  return shape === undefined ? own : shape(ratePerS ?? profilePeakPerS(own), profileDurationS(own));
};

const UNBOUNDED_PER_S = 5_000;
const CLOSED_LOOP_S = 15;

export const storyOfPlan = (plan: LoadStage): Story => {
  const story = STORIES.get(plan.story);
  if (story === undefined) throw new Error(`stage ${plan.name}: there is no story "${plan.story}"`);
  return story;
};

type Known = Pick<Deployment, "target" | "embedded" | "found">;

export const viewWith = ({ target, found }: Known, readings: TenantReadings = {}): TargetView => ({
  ...viewOf(target, readings),
  capacity: found,
});

/** `null`: no rate is known, so the ramp of `story.needsCapacity` has to be played first. */
export const plannedFor = (plan: LoadStage, deployment: Known, view = viewWith(deployment)): PlannedLoad | null => {
  const { driver, ratePerS, durationS, profile: given, replayOfMs, reaches, disturbance } = plan;
  const { target, embedded } = deployment;
  const maxPerS = target.permits?.load_max_rps;
  const story = storyOfPlan(plan);
  const mostPerS = maxPerS === undefined ? undefined : SHARE_OF_PERMIT * maxPerS;
  const wish = { ratePerS, durationS, maxPerS: mostPerS };
  const reach = (): Reach => story.reaches(view, wish);
  if (driver === "autocannon") {
    // A closed loop has no schedule: its profile is the highest rate for so long.
    const perS = Math.min(ratePerS ?? UNBOUNDED_PER_S, maxPerS ?? UNBOUNDED_PER_S);
    return { profile: constant(perS, durationS ?? CLOSED_LOOP_S), arrivals: "uniform", reach: reach() };
  }
  if (given !== undefined) return { profile: given, arrivals: plan.arrivals ?? "uniform", reach: reach() };
  const own = story.profile(view, wish);
  if (own === null) return null;
  const wanted = wantedProfile(plan, own);
  const share = (mostPerS ?? Number.POSITIVE_INFINITY) / profilePeakPerS(wanted);
  const profile = share < 1 ? scaleProfile(wanted, share) : wanted;
  const isNear = maxPerS !== undefined && profilePeakPerS(profile) > SHARE_FOR_POISSON * maxPerS;
  // A suite knows what its stages reach on the embedded deployment and what its disturbances bring about.
  const isKnown = reaches !== undefined && (embedded || disturbance !== undefined);
  const owed = isKnown ? { all: reaches, oneOf: [], beyond: [] } : reach();
  return {
    profile,
    arrivals: plan.arrivals ?? (isNear ? "uniform" : "poisson"),
    reach: replayOfMs === undefined ? owed : reachOfReplay(owed),
    slowedTo: replayOfMs !== undefined && share < 1 ? share : undefined,
  };
};

export const stageMissing = (plan: LoadStage, can: Disturbable, view: TargetView = viewOf(can.target)): string[] => [
  ...storyOfPlan(plan).missing(view),
  ...disturbanceMissing(plan.disturbance, can),
  ...capMissing(plan, can.target),
];

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

export type PlannedTarget = ReturnType<typeof plannedTarget>;

export const plannedTarget = ({ name, base_url, budget }: Target) => ({
  name: name ?? base_url,
  base_url,
  budget: { ...budget } as Record<string, number>,
});

export const stagesFor = (given: SuiteFor, { stages, short }: StagesWish): StagePlan[] =>
  stages(given).map((plan) => (short ? shortened(plan) : plan));

export const planStages = async ({ targetFile, owned, limiter = "sqlite", stages: wish, refusals }: PlanRequest) => {
  const embedded = targetFile === undefined;
  const read = embedded ? null : await readTarget(targetFile, owned, intentOf(wish));
  const target = read?.target ?? plannedEmbedded();
  const missing = embedded ? null : proxiesMissing(target);
  const links = embedded ? { limiter: "", keys: "", edge: "" } : (target.toxiproxy?.proxies ?? {});
  const [faults, faultsMissing] = missing === null ? [{ links }, ""] : [null, missing];
  const own = embedded ? { store: { kind: limiter } } : undefined;
  const given: SuiteFor = { target, embedded, limiter };
  const stages = stagesFor(given, wish).map((plan) => {
    if (plan.kind === "verify") return planOfStage(plan, given);
    const can = { target: embedded ? plannedTenants(plan.tenants, target) : target, faults, faultsMissing, own };
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
/** Seconds that a plan adds for verify's bursts: they are not paced, so they last as long as their answers take. */
const BURSTS_S = 30;
const RATE_UNKNOWN_S = 20;
const RATE_UNKNOWN_PER_S = 200;
const RAMP_S = 24;
/** The planned seconds of an experiment, which ends its load when it is over. */
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
  // The calls include retries, further steps and sessions fetched beforehand.
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

/** The intent that the safety guard judges; only stages that could be played count. */
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
      // An operator's changes are no faults.
      faults:
        target.permits?.chaos === true &&
        loads.some(({ disturbance: { kind } = {} }) => kind !== undefined && kind !== "operator-changes"),
      requests: plans.reduce((sum, plan) => sum + planOfStage(plan, given, lacks(plan)).calls, 0),
    };
  };

/** The load of a stage on one deployment: the story's own or the user's, inside what the target file permits. */
import type { Deployment } from "../deployments/deployment.ts";
import { disturbanceMissing, type FaultCapabilities } from "../faults/capabilities.ts";
import type { Target } from "../target/target.ts";
import type { Arrivals } from "../workload/arrivals.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import { type TenantReadings, viewOf } from "../workload/callers/view-of-target.ts";
import { STORIES } from "../workload/catalogue.ts";
import {
  constant,
  PROFILES,
  type Profile,
  profileDurationS,
  profilePeakPerS,
  scaleProfile,
} from "../workload/load-profiles.ts";
import type { Reach, Story } from "../workload/story.ts";
import { traceProfile } from "../workload/trace.ts";
import type { LoadStage } from "./stage-plan.ts";

/** Sessions are minted and refusals retried beside the schedule. */
const SHARE_OF_PERMIT = 0.9;
/** Random arrivals come in bursts, which a rate near the permit would hold back. */
const SHARE_FOR_POISSON = 0.6;

/** `slowedTo`: which share of its speed a replayed log is played at, whose busiest second is beyond the permitted rate. */
type PlannedLoad = { profile: Profile; arrivals: Arrivals; reach: Reach; slowedTo?: number };

/** What a target lacks for a load that fills its in-flight cap. */
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

/** `null`: no rate is known, so the ramp of `story.needsCapacity` has to be played first. */
export const plannedLoad = (
  plan: LoadStage,
  story: Story,
  view: TargetView,
  { maxPerS, embedded }: { maxPerS: number | undefined; embedded: boolean },
): PlannedLoad | null => {
  const { driver, ratePerS, durationS, profile: given, replayOfMs, reaches, disturbance } = plan;
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

/** The load of the stage by what is known now; `null` where a rate has to be found first. */
export const plannedFor = (plan: LoadStage, deployment: Known, view = viewWith(deployment)): PlannedLoad | null =>
  plannedLoad(plan, storyOfPlan(plan), view, {
    maxPerS: deployment.target.permits?.load_max_rps,
    embedded: deployment.embedded,
  });

export const stageMissing = (
  plan: LoadStage,
  can: FaultCapabilities,
  view: TargetView = viewOf(can.target),
): string[] => [
  ...storyOfPlan(plan).missing(view),
  ...disturbanceMissing(plan.disturbance, can),
  ...capMissing(plan, can.target),
];

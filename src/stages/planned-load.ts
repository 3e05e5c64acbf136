/** The load of a stage on one deployment: the story's own or the user's, inside what the target file permits. */
import type { Deployment } from "../deployments/deployment.ts";
import type { FaultCapabilities } from "../faults/capabilities.ts";
import { disturbanceMissing } from "../faults/capabilities.ts";
import type { Target } from "../target/target.ts";
import type { Arrivals } from "../workload/arrivals.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import type { TenantReadings } from "../workload/callers/view-of-target.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { STORIES } from "../workload/catalogue.ts";
import {
  constant,
  PROFILES,
  type Profile,
  profileDurationS,
  profilePeakPerS,
  scaleProfile,
} from "../workload/load-profiles.ts";
import type { ProfileWish, Reach, Story } from "../workload/story.ts";
import { traceProfile } from "../workload/trace.ts";
import type { LoadStage } from "./stage-plan.ts";

/** Sessions are minted and refusals retried beside the schedule. */
const SHARE_OF_PERMIT = 0.9;
/** Random arrivals come in bursts, which a rate near the permit would hold back. */
const SHARE_FOR_POISSON = 0.6;

export type PlannedLoad = {
  profile: Profile;
  arrivals: Arrivals;
  reach: Reach;
  /** Of a replayed log whose busiest second is beyond the permitted rate: which share of its speed is played. */
  slowedTo?: number;
};

const wishOf = ({ ratePerS, durationS }: LoadStage, maxPerS: number | undefined): ProfileWish => ({
  ratePerS,
  durationS,
  maxPerS: maxPerS === undefined ? undefined : SHARE_OF_PERMIT * maxPerS,
});

/** What a target lacks for a load that fills its in-flight cap. */
export const capMissing = ({ pastTheCap, ratePerS = 0 }: LoadStage, { limits, permits }: Target): string[] => {
  if (pastTheCap !== true) return [];
  if (limits?.global_in_flight === undefined) return ["`limits.global_in_flight` (to load past it)"];
  const mostPerS = SHARE_OF_PERMIT * (permits?.load_max_rps ?? Number.POSITIVE_INFINITY);
  return mostPerS >= ratePerS ? [] : [`\`permits.load_max_rps\` of ${Math.ceil(ratePerS / SHARE_OF_PERMIT)} or more`];
};

/** A suite knows what its stages reach on the embedded deployment and what its disturbances bring about. */
const reachOf = (plan: LoadStage, story: Story, view: TargetView, wish: ProfileWish, embedded: boolean): Reach =>
  plan.reaches !== undefined && (embedded || plan.disturbance !== undefined)
    ? { all: plan.reaches, oneOf: [], beyond: [] }
    : story.reaches(view, wish);

/** A replayed log fixes the load, so reaching the target outcomes is optional. */
const reachOfReplay = ({ all, oneOf, beyond }: Reach): Reach => {
  const owed = (outcome: string): boolean => outcome === "200";
  const reason = "the replayed log sets the load";
  const free = [...all, ...oneOf].filter((outcome) => !owed(outcome));
  return { all: all.filter(owed), oneOf: [], beyond: [...beyond, ...free.map((outcome) => ({ outcome, reason }))] };
};

/** A log has its own rate and length unless the user states others. */
const wantedProfile = ({ loadProfile, replayOfMs, ratePerS, durationS }: LoadStage, own: Profile): Profile => {
  if (replayOfMs !== undefined) {
    return traceProfile(replayOfMs, { ratePerS, durationS });
  }
  const shape = loadProfile === undefined ? undefined : PROFILES[loadProfile];
  return shape === undefined ? own : shape(ratePerS ?? profilePeakPerS(own), profileDurationS(own));
};

const UNBOUNDED_PER_S = 5_000;
const CLOSED_LOOP_S = 15;

/** A closed loop has no schedule: its profile is the highest rate for so long. */
const closedLoad = ({ ratePerS, durationS = CLOSED_LOOP_S }: LoadStage, maxPerS = UNBOUNDED_PER_S): Profile =>
  constant(Math.min(ratePerS ?? UNBOUNDED_PER_S, maxPerS), durationS);

/** `null`: no rate is known, so the ramp of `story.needsCapacity` has to be played first. */
export const plannedLoad = (
  plan: LoadStage,
  story: Story,
  view: TargetView,
  given: { maxPerS: number | undefined; embedded: boolean },
): PlannedLoad | null => {
  const wish = wishOf(plan, given.maxPerS);
  if (plan.driver === "autocannon") {
    return { profile: closedLoad(plan, given.maxPerS), arrivals: "uniform", reach: story.reaches(view, wish) };
  }
  if (plan.profile !== undefined) {
    return { profile: plan.profile, arrivals: plan.arrivals ?? "uniform", reach: story.reaches(view, wish) };
  }
  const own = story.profile(view, wish);
  if (own === null) return null;
  const wanted = wantedProfile(plan, own);
  const most = wish.maxPerS ?? Number.POSITIVE_INFINITY;
  const peak = profilePeakPerS(wanted);
  const profile = peak > most ? scaleProfile(wanted, most / peak) : wanted;
  const reach = reachOf(plan, story, view, wish, given.embedded);
  const isNear = given.maxPerS !== undefined && profilePeakPerS(profile) > SHARE_FOR_POISSON * given.maxPerS;
  return {
    profile,
    arrivals: plan.arrivals ?? (isNear ? "uniform" : "poisson"),
    reach: plan.replayOfMs === undefined ? reach : reachOfReplay(reach),
    ...(plan.replayOfMs !== undefined && peak > most ? { slowedTo: most / peak } : {}),
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

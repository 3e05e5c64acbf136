/** The load of a stage on one deployment: the story's own or the user's, inside what the target file permits. */
import type { Arrivals } from "../workload/arrivals.ts";
import { PROFILES, type Profile, profileDurationS, profilePeakPerS, scaleProfile } from "../workload/load-profiles.ts";
import type { Story } from "../workload/story.ts";
import type { TargetView } from "../workload/target-view.ts";
import type { LoadStage } from "./stage-plan.ts";

/** Sessions are minted and refusals retried beside the schedule. */
const SHARE_OF_PERMIT = 0.9;
/** Random arrivals come in bunches, which a permitted rate that is near would hold back. */
const SHARE_FOR_POISSON = 0.6;

export type PlannedProfile = {
  profile: Profile;
  arrivals: Arrivals;
  /** Why the stage may not reach what it is about, for no fault of the target. */
  excuses: string[];
};

export const plannedProfile = (
  plan: LoadStage,
  story: Story,
  view: TargetView,
  maxPerS: number | undefined,
): PlannedProfile => {
  const { ratePerS, durationS } = plan;
  const own = story.profile(view, {
    ...(ratePerS === undefined ? {} : { ratePerS }),
    ...(durationS === undefined ? {} : { durationS }),
  });
  const shape = plan.loadProfile === undefined ? undefined : PROFILES[plan.loadProfile];
  const wanted = shape === undefined ? own : shape(ratePerS ?? profilePeakPerS(own), profileDurationS(own));
  const peak = profilePeakPerS(wanted);
  const allowed = maxPerS === undefined ? Number.POSITIVE_INFINITY : SHARE_OF_PERMIT * maxPerS;
  const isBounded = peak > allowed;
  const profile = isBounded ? scaleProfile(wanted, allowed / peak) : wanted;
  const isNear = maxPerS !== undefined && profilePeakPerS(profile) > SHARE_FOR_POISSON * maxPerS;
  return {
    profile,
    arrivals: plan.arrivals ?? (isNear ? "uniform" : "poisson"),
    excuses: isBounded
      ? [`the stage wants ${Math.round(peak)} calls/s and permits.load_max_rps of the target file allows ${maxPerS}`]
      : [],
  };
};

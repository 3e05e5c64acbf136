/** How many calls k6 may make at once here, and how many VUs make them: as the load asks for, as far as there is memory. */
import type { TargetView } from "../../workload/callers/target-view.ts";
import {
  allPlacesTaken,
  callsAtOnceFor,
  callsThatFit,
  holdingOf,
  tooFewCalls,
  vusFor,
} from "../../workload/k6-executor.ts";
import type { Profile } from "../../workload/load-profiles.ts";
import type { Story } from "../../workload/story.ts";

/** k6 may have so much of the memory that is free: the deployment may stand on the same machine. */
const MEMORY_SHARE = 0.5;

type Wish = {
  profile: Profile;
  view: TargetView;
  story: Story;
  seed: number;
  /** Calls at once, in place of what is worked out. */
  vus?: number;
};
type Vus = { vus: number; callsAtOnce: number; warnings: string[] };

/** Of all segments together, of which each has one of either at least. */
export const vusHere = (
  { profile, view, story, seed, vus: asked }: Wish,
  segments: number,
  freeBytes = process.availableMemory(),
): Vus => {
  const holding = holdingOf(story, seed, view);
  if (asked !== undefined)
    return { vus: vusFor(profile, asked, holding), callsAtOnce: Math.max(1, asked), warnings: [] };
  const wanted = Math.max(segments, callsAtOnceFor(profile, view.limits, holding));
  const fit = Math.max(segments, callsThatFit(MEMORY_SHARE * freeBytes, holding));
  const callsAtOnce = Math.min(wanted, fit);
  const why = `half of the ${Math.round(freeBytes / 1e6)} MB that are free here`;
  return {
    vus: Math.max(segments, vusFor(profile, callsAtOnce, holding)),
    callsAtOnce,
    warnings: callsAtOnce < wanted ? [tooFewCalls(wanted, callsAtOnce, why)] : [],
  };
};

/** `most`: calls that were under way at once, of each process; the places are shared out evenly. */
export const busyWarnings = (callsAtOnce: number, most: readonly number[]): string[] =>
  most.some((one) => one >= Math.floor(callsAtOnce / most.length)) ? [allPlacesTaken(callsAtOnce)] : [];

/** How many calls k6 may make at once here, and how many VUs make them: as the load asks for, as far as there is memory. */
import { fileLimitsOf } from "../../supervision/proc-files.ts";
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

/** What k6 opens besides the connections of calls. */
const OTHER_FILES = 200;

/** What this machine has for calls: bytes that are free, and files that a process may have open. */
type Room = { freeBytes: number; files: number };

/** Go raises its own limit as far as it may. */
const roomHere = (): Room => ({
  freeBytes: process.availableMemory(),
  files: fileLimitsOf("self")?.hard ?? Number.POSITIVE_INFINITY,
});

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
  { freeBytes, files }: Room = roomHere(),
): Vus => {
  const holding = holdingOf(story, seed, view);
  if (asked !== undefined)
    return { vus: vusFor(profile, asked, holding), callsAtOnce: Math.max(1, asked), warnings: [] };
  const wanted = Math.max(segments, callsAtOnceFor(profile, view.limits, holding));
  const inMemory = callsThatFit(MEMORY_SHARE * freeBytes, holding);
  const inFiles = segments * Math.max(1, files - OTHER_FILES);
  const callsAtOnce = Math.min(wanted, Math.max(segments, Math.min(inMemory, inFiles)));
  const why =
    inFiles < inMemory
      ? `a process may have ${files} files open here: ulimit -n`
      : `half of the ${Math.round(freeBytes / 1e6)} MB that are free here`;
  return {
    vus: Math.max(segments, vusFor(profile, callsAtOnce, holding)),
    callsAtOnce,
    warnings: callsAtOnce < wanted ? [tooFewCalls(wanted, callsAtOnce, why)] : [],
  };
};

/** `most`: calls that were under way at once, of each process; the places are shared out evenly. */
export const busyWarnings = (callsAtOnce: number, most: readonly number[]): string[] =>
  most.some((one) => one >= Math.floor(callsAtOnce / most.length)) ? [allPlacesTaken(callsAtOnce)] : [];

/** Which stages autocannon can play: plain requests, without streams, retries or calls that build on each other. */
import { routeOf } from "../../contract/routes.ts";
import type { Target } from "../../target/target.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import type { Step } from "../../workload/step.ts";
import type { Story } from "../../workload/story.ts";
import { cannotReach } from "./autocannon.ts";

/** Calls that are checked; stories repeat sooner. */
const LOOKED_AT = 300;
/** autocannon is asked for half of what is permitted, in whole calls a second. */
const LEAST_PER_S = 2;

const beyond = ({ route, retry, abort, slowReadMs }: Step): string | null => {
  if (route !== "-" && routeOf(route).stream !== undefined) return `reads event streams (${route})`;
  if (retry !== undefined) return "tries again after a refusal";
  return abort !== undefined || slowReadMs !== undefined ? "leaves or reads slowly on purpose" : null;
};

/** What autocannon cannot do of a story; `null` where its calls are plain requests. */
export const notPlain = (story: Story, seed: number, view: TargetView): string | null => {
  for (let i = 0; i < LOOKED_AT; i++) {
    const steps = story.plan(seed, i, view);
    if (steps.length !== 1) return "makes calls that build on each other";
    const found = beyond(steps[0] as Step);
    if (found !== null) return found;
  }
  return null;
};

/** Why autocannon cannot play the stage on the target, as a sentence; `null` where it can, or another driver plays it. */
export const closedLoopRefusal = (
  { driver, story: name, ratePerS = Number.POSITIVE_INFINITY }: { driver: string; story: string; ratePerS?: number },
  target: Target,
): string | null => {
  const story = STORIES.get(name);
  if (driver !== "autocannon" || story === undefined) return null;
  const others = "use --driver open-loop or --driver k6";
  const more = notPlain(story, 0, viewOf(target));
  if (more !== null) return `${name} ${more}, and autocannon makes plain requests only; ${others}`;
  const unable = cannotReach(target);
  if (unable !== null) return `autocannon is not set up for ${unable} of the target file; ${others}`;
  const mostPerS = Math.min(ratePerS, target.permits?.load_max_rps ?? Number.POSITIVE_INFINITY);
  return mostPerS < LEAST_PER_S
    ? `autocannon sends at least ${LEAST_PER_S} calls/s, and ${mostPerS} are permitted; ${others}`
    : null;
};

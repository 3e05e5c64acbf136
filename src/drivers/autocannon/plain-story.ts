/** Which stories autocannon can play: it knows requests and answers, and nothing of streams, retries or one call after another. */
import { routeOf } from "../../contract/routes.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import type { Step } from "../../workload/step.ts";
import type { Story } from "../../workload/story.ts";

/** So many calls are looked at; stories repeat themselves sooner. */
const LOOKED_AT = 300;

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

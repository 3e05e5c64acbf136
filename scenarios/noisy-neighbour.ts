/** One organization into its own cap, by k6. */
import { noisyNeighbour } from "../src/workload/stories/noisy.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(noisyNeighbour, {
  allowed: ["200", "200 error", "429 org_overloaded", "429 rate_limited"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

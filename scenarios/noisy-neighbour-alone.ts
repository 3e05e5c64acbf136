/** A k6 script of noisy-neighbour's quiet organizations alone. */
import { noisyNeighbourAlone } from "../src/workload/stories/noisy.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(noisyNeighbourAlone, {
  allowed: ["200", "200 error", "429 rate_limited"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

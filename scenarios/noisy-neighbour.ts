/** A k6 script of one organization that exceeds its cap, beside quiet ones. */
import { noisyNeighbour } from "../src/workload/stories/noisy.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(noisyNeighbour, {
  allowed: ["200", "200 error", "429 org_overloaded", "429 rate_limited"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

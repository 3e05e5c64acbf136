/** A k6 script of two keys at twice their rate. */
import { rateLimitEdge } from "../src/workload/stories/reads.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(rateLimitEdge, {
  allowed: ["200", "429 rate_limited"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

/** A k6 script of streams at a rising rate. */
import { findKnee } from "../src/workload/stories/reads.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(findKnee, {
  allowed: ["200", "429 b2b_overloaded", "429 org_overloaded", "429 rate_limited"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

/** A k6 script of streams from half to ten times the knee, up and down; only the runner judges the curve. */
import { MIXES_AND_STREAMS } from "../src/workload/stories/mixes-and-streams.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(MIXES_AND_STREAMS["shedding-curve"], {
  allowed: ["200", "200 error", "429 b2b_overloaded", "429 org_overloaded", "429 rate_limited"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

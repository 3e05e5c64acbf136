/** A k6 script of an ordinary day of many organizations. */
import { steadyMix } from "../src/workload/stories/mixes-and-streams.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(steadyMix, {
  allowed: ["200", "200 error"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

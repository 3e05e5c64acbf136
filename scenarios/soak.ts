/** A k6 script with the load of soak. Only the runner adds the disturbance. */
import { MIXES_AND_STREAMS } from "../src/workload/stories/mixes-and-streams.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(MIXES_AND_STREAMS.soak, {
  allowed: ["200", "200 error"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

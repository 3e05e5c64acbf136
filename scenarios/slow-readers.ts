/** A k6 script with the load of slow-readers. Only the runner adds the disturbance. */
import { MIXES_AND_STREAMS } from "../src/workload/stories/mixes-and-streams.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(MIXES_AND_STREAMS["slow-readers"], {
  allowed: ["200", "200 error", "429 b2b_overloaded"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

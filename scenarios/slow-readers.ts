/** The load of slow-readers, by k6; with the runner the disturbance comes as well. */
import { slowReaders } from "../src/workload/stories/mixes-and-streams.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(slowReaders, {
  allowed: ["200", "200 error", "429 b2b_overloaded"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

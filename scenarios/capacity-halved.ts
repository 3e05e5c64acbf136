/** The load of capacity-halved, by k6; with the runner the disturbance comes as well. */
import { capacityHalved } from "../src/workload/stories/mixes-and-streams.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(capacityHalved, {
  allowed: ["200", "200 error", "429 b2b_overloaded"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

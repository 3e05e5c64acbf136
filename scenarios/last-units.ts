/** A k6 script with the load of last-units. Only the runner adds the disturbance. */
import { lastUnits } from "../src/workload/stories/beside-faults.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(lastUnits, {
  allowed: ["200", "429 map_load_quota_exceeded", "429 map_load_hard_stop"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

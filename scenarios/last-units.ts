/** The load of last-units, by k6; with the runner the disturbance comes as well. */
import { lastUnits } from "../src/workload/stories/beside-faults.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(lastUnits, {
  allowed: ["200", "429 map_load_quota_exceeded", "429 map_load_hard_stop"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

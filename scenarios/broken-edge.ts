/** A k6 script with the load of broken-edge. Only the runner adds the disturbance. */
import { brokenEdge } from "../src/workload/stories/beside-faults.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(brokenEdge, {
  allowed: ["200"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

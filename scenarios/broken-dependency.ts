/** The load of broken-dependency, by k6; with the runner the disturbance comes as well. */
import { brokenDependency } from "../src/workload/stories/beside-faults.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(brokenDependency, {
  allowed: ["200"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

/** The load of replica-lost, by k6; with the runner the disturbance comes as well. */
import { replicaLost } from "../src/workload/stories/mixes-and-streams.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(replicaLost, {
  allowed: ["200", "200 error"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

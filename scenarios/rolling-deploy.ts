/** The load of rolling-deploy, by k6; with the runner the disturbance comes as well. */
import { rollingDeploy } from "../src/workload/stories/mixes-and-streams.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(rollingDeploy, {
  allowed: ["200", "200 error"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

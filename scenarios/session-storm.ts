/** A k6 script of exchanges alone. */
import { sessionStorm } from "../src/workload/stories/reads.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(sessionStorm, {
  allowed: ["200"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

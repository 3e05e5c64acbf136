/** Every answer that can be had by asking, by k6. */
import { smoke } from "../src/workload/stories/smoke.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(smoke, {});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

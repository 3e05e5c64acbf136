/** A k6 script that provokes every answer that a caller can provoke alone. */
import { smoke } from "../src/workload/stories/smoke.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(smoke, {});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

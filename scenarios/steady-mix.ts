/** A k6 script of an ordinary day of many organizations. */
import { MIXES_AND_STREAMS } from "../src/workload/stories/mixes-and-streams.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(MIXES_AND_STREAMS["steady-mix"], {
  allowed: ["200", "200 error"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

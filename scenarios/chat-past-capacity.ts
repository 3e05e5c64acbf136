/** A k6 script of streams at three times the capacity. */
import { MIXES_AND_STREAMS } from "../src/workload/stories/mixes-and-streams.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(MIXES_AND_STREAMS["chat-past-capacity"], {
  allowed: ["200", "200 error", "429 b2b_overloaded"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

/** A k6 script of streams at three times the capacity. */
import { chatPastCapacity } from "../src/workload/stories/mixes-and-streams.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(chatPastCapacity, {
  allowed: ["200", "200 error", "429 b2b_overloaded"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

/** A k6 script of streams by quiet organizations, beside one that opens more streams than its cap. */
import { chatBesideNoisy } from "../src/workload/stories/noisy.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(chatBesideNoisy, {
  allowed: ["200", "200 error", "429 org_overloaded", "429 b2b_overloaded", "429 rate_limited"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

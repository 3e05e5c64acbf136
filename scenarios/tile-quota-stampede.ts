/** A k6 script of concurrent tile mints past the allowances. */
import { tileQuotaStampede } from "../src/workload/stories/tile-quota.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(tileQuotaStampede, {
  allowed: [
    "200",
    "200 error",
    "429 map_load_quota_exceeded",
    "429 map_load_hard_stop",
    "429 org_overloaded",
    "429 rate_limited",
  ],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

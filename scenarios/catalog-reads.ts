/** A k6 script of catalog reads, the cheapest calls. */
import { catalogReads } from "../src/workload/stories/reads.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(catalogReads, {
  allowed: ["200"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

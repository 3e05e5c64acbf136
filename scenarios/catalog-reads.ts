/** The cheapest answers, by k6. */
import { catalogReads } from "../src/workload/stories/reads.ts";
import { scenarioOf } from "./shared/scenario.ts";

const scenario = scenarioOf(catalogReads, {
  allowed: ["200"],
});

export const { options, setup, teardown, handleSummary } = scenario;
export default scenario.run;

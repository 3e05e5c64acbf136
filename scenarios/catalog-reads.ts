/** The cheapest answers, by k6. */
import { catalogReads } from "../src/workload/stories/catalog-reads.ts";
import { runStory } from "./shared/call.ts";
import { handed } from "./shared/handed.ts";

export { handleSummary } from "./shared/summary.ts";
export const options = handed.options;

export default (): void => runStory(catalogReads);

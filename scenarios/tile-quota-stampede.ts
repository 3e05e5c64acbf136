/** Concurrent tile mints across the allowance, by k6. */
import { tileQuotaStampede } from "../src/workload/stories/tile-quota-stampede.ts";
import { runStory } from "./shared/call.ts";
import { handed } from "./shared/handed.ts";

export { handleSummary } from "./shared/summary.ts";
export const options = handed.options;

export default (): void => runStory(tileQuotaStampede);

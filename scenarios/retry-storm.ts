/** Streams past capacity whose clients come back, by k6. */
import { retryStorm } from "../src/workload/stories/retry-storm.ts";
import { runStory } from "./shared/call.ts";
import { handed } from "./shared/handed.ts";

export { handleSummary } from "./shared/summary.ts";
export const options = handed.options;

export default (): void => runStory(retryStorm);

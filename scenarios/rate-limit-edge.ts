/** Two keys at twice their rate, by k6. */
import { rateLimitEdge } from "../src/workload/stories/rate-limit-edge.ts";
import { runStory } from "./shared/call.ts";
import { handed } from "./shared/handed.ts";

export { handleSummary } from "./shared/summary.ts";
export const options = handed.options;

export default (): void => runStory(rateLimitEdge);

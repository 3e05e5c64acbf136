/** Every answer that can be had by asking, by k6. */
import { smoke } from "../src/workload/stories/smoke.ts";
import { runStory } from "./shared/call.ts";
import { handed } from "./shared/handed.ts";

export { handleSummary } from "./shared/summary.ts";
export const options = handed.options;

export default (): void => runStory(smoke);

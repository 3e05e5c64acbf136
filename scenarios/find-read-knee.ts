/** Reads at a growing rate, by k6. */
import { findReadKnee } from "../src/workload/stories/find-knee.ts";
import { runStory } from "./shared/call.ts";
import { handed } from "./shared/handed.ts";

export { handleSummary } from "./shared/summary.ts";
export const options = handed.options;

export default (): void => runStory(findReadKnee);

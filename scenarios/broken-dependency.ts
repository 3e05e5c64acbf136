/** The load of broken-dependency, by k6; the runner brings the disturbance. */
import { brokenDependency } from "../src/workload/stories/broken-dependency.ts";
import { runStory } from "./shared/call.ts";
import { handed } from "./shared/handed.ts";

export { handleSummary } from "./shared/summary.ts";
export const options = handed.options;

export default (): void => runStory(brokenDependency);

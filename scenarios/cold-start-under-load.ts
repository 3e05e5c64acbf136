/** The load of cold-start-under-load, by k6; the runner brings the disturbance. */
import { coldStartUnderLoad } from "../src/workload/stories/under-disturbance.ts";
import { runStory } from "./shared/call.ts";
import { handed } from "./shared/handed.ts";

export { handleSummary } from "./shared/summary.ts";
export const options = handed.options;

export default (): void => runStory(coldStartUnderLoad);

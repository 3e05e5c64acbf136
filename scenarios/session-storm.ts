/** Nothing but exchanges, by k6. */
import { sessionStorm } from "../src/workload/stories/session-storm.ts";
import { runStory } from "./shared/call.ts";
import { handed } from "./shared/handed.ts";

export { handleSummary } from "./shared/summary.ts";
export const options = handed.options;

export default (): void => runStory(sessionStorm);

/** The load of heavy-tail-streams, by k6; the runner brings the disturbance. */
import { heavyTailStreams } from "../src/workload/stories/under-disturbance.ts";
import { runStory } from "./shared/call.ts";
import { handed } from "./shared/handed.ts";

export { handleSummary } from "./shared/summary.ts";
export const options = handed.options;

export default (): void => runStory(heavyTailStreams);

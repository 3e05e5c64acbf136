/** One organization into its own cap, by k6. */
import { noisyNeighbour } from "../src/workload/stories/noisy-neighbour.ts";
import { runStory } from "./shared/call.ts";
import { handed } from "./shared/handed.ts";

export { handleSummary } from "./shared/summary.ts";
export const options = handed.options;

export default (): void => runStory(noisyNeighbour);

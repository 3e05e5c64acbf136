/** An ordinary day of many organizations, by k6. */
import { steadyMix } from "../src/workload/stories/steady-mix.ts";
import { runStory } from "./shared/call.ts";
import { handed } from "./shared/handed.ts";

export { handleSummary } from "./shared/summary.ts";
export const options = handed.options;

export default (): void => runStory(steadyMix);

/** Quiet organizations in turn and one that opens more than it may hold, by k6. */
import { chatBesideNoisy } from "../src/workload/stories/chat-beside-noisy.ts";
import { runStory } from "./shared/call.ts";
import { handed } from "./shared/handed.ts";

export { handleSummary } from "./shared/summary.ts";
export const options = handed.options;

export default (): void => runStory(chatBesideNoisy);

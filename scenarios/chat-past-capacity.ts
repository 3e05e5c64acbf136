/** Three times the streams that fit, by k6. */
import { chatPastCapacity } from "../src/workload/stories/chat-past-capacity.ts";
import { runStory } from "./shared/call.ts";
import { handed } from "./shared/handed.ts";

export { handleSummary } from "./shared/summary.ts";
export const options = handed.options;

export default (): void => runStory(chatPastCapacity);

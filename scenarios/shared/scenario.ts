/** From a story to what k6 asks of a script. The runner hands everything over; without it, the script reads the target file. */
import type { Story } from "../../src/workload/story.ts";
import { scenarioAlone } from "./alone.ts";
import type { Expectations } from "./expectations.ts";
import { handedIn, scenarioForRunner } from "./for-runner.ts";

/** What k6 asks of a script. */
type Scenario = {
  options: Record<string, unknown>;
  setup(): unknown;
  run(data?: unknown): void;
  teardown(): void;
  handleSummary(data: unknown): Record<string, string>;
};

export const scenarioOf = (story: Story, expectations: Expectations): Scenario => {
  // Where the runner has k6 play one script of all (src/native/k6/main.go), the other half is left out of it.
  return __ENV.FLOODGATE_HANDOVER
    ? scenarioForRunner(story, handedIn(__ENV.FLOODGATE_HANDOVER))
    : scenarioAlone(story, expectations);
};

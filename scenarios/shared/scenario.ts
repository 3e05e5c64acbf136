/** From a story to what k6 asks of a script. The runner hands everything over; without it, the script reads the target file. */
import type { Story } from "../../src/workload/story.ts";
import { scenarioAlone } from "./alone.ts";
import type { Expectations } from "./expectations.ts";
import { handedByRunner, scenarioForRunner } from "./for-runner.ts";
import type { Scenario } from "./k6-exports.ts";

export const scenarioOf = (story: Story, expectations: Expectations): Scenario => {
  const handed = handedByRunner();
  return handed === null ? scenarioAlone(story, expectations) : scenarioForRunner(story, handed);
};

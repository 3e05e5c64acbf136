/** From a story to what k6 asks of a script. The runner hands everything over; without it, the script reads the target file. */
import type { Story } from "../../src/workload/story.ts";
import { scenarioAlone } from "./alone.ts";
import type { Expectations } from "./expectations.ts";
import { handedByRunner, scenarioForRunner } from "./for-runner.ts";

export type Scenario = {
  options: Record<string, unknown>;
  setup(): unknown;
  run(data?: unknown): void;
  handleSummary(data: unknown): Record<string, string>;
};

export const scenarioOf = (story: Story, expectations: Expectations): Scenario => {
  const handed = handedByRunner();
  return handed === null ? scenarioAlone(story, expectations) : scenarioForRunner(story, handed);
};

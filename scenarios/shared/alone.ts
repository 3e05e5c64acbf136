/** A scenario that k6 runs by itself: it reads the target file, mints its sessions, and has thresholds and a summary of its own. */
import { SharedArray } from "k6/data";
import exec from "k6/execution";
import { maskSecrets } from "../../src/contract/credentials.ts";
import type { Story } from "../../src/workload/story.ts";
import { endInOrder, setBudget, settled, spentSoFar } from "./budget.ts";
import { performIteration } from "./calls.ts";
import { createCounting, type Expectations } from "./expectations.ts";
import type { Scenario } from "./k6-exports.ts";
import { type Plan, planAlone } from "./plan.ts";
import { mintSessions, type Sessions, sessionsOfVu } from "./sessions.ts";
import { Refusal } from "./stated-target.ts";
import { type SummaryData, summaryText } from "./summary-text.ts";
import { turnsOf } from "./turns.ts";

type Planned = { plan: Plan } | { refused: string };

/** Made once for all VUs: it looks at many calls of the story, and holds the secrets. */
const planned = (story: Story, expectations: Expectations): Plan => {
  const [made] = new SharedArray<Planned>("floodgate", () => {
    try {
      return [{ plan: planAlone(story, expectations) }];
    } catch (error) {
      if (error instanceof Refusal) return [{ refused: maskSecrets(error.message) }];
      throw error;
    }
  });
  if (made !== undefined && "plan" in made) return made.plan;
  exec.test.abort(made?.refused);
  throw new Error(made?.refused);
};

export const scenarioAlone = (story: Story, expectations: Expectations): Scenario => {
  const { handed, notes, target, expected } = planned(story, expectations);
  setBudget(handed.budget);
  const counting = createCounting(expected);
  const sessions = sessionsOfVu(story, handed);
  const turns = turnsOf(handed);
  return {
    // k6 writes into its options, and what a SharedArray gives is frozen.
    options: JSON.parse(JSON.stringify(handed.options)),
    setup: () => {
      try {
        return mintSessions(story, handed);
      } catch (error) {
        if (error instanceof Refusal) exec.test.abort(maskSecrets(error.message));
        throw error;
      }
    },
    run: (data) => {
      try {
        performIteration(story, {
          handed,
          turns,
          sessionOf: sessions(data as Sessions),
          onAnswer: ({ intendedUs }, step, answer) => {
            counting.count(step, answer, intendedUs);
            settled();
          },
          onUnsent: endInOrder,
        });
      } catch (error) {
        // k6 counts an iteration that threw as a good one.
        counting.fault(maskSecrets(String(error)));
      }
    },
    teardown: () => undefined,
    handleSummary: (data) => ({
      stdout: summaryText({ story, target, notes, handed }, data as SummaryData, spentSoFar()),
    }),
  };
};

/** A scenario without the runner: reads the target file, mints its sessions, has its own thresholds and summary. */
import { SharedArray } from "k6/data";
import exec from "k6/execution";
import { maskSecrets } from "../../src/contract/credentials.ts";
import type { Story } from "../../src/workload/story.ts";
import { performIteration } from "./calls.ts";
import { createCounting, type Expectations } from "./expectations.ts";
import { endInOrder, floodgate, printingTo, turnsOf } from "./extension.ts";
import { type Plan, planAlone } from "./plan.ts";
import { mintSessions, type Sessions, sessionsOfVu } from "./sessions.ts";
import { Refusal } from "./stated-target.ts";
import { type SummaryData, summaryText } from "./summary-text.ts";

type Planned = { plan: Plan } | { refused: string };

/** The plan, made once for all VUs, because it inspects many calls of the story. It holds the secrets. */
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

export const scenarioAlone = (story: Story, expectations: Expectations) => {
  const { handed, notes, target, stated, expected } = planned(story, expectations);
  floodgate.budget(handed.budget ?? {});
  const part = __ENV.PART ? printingTo(__ENV.PART) : undefined;
  const counting = createCounting(expected);
  const sessions = sessionsOfVu(story, handed, part?.mint);
  const takeTurn = turnsOf(handed);
  return {
    // A copy, because k6 writes into its options and the content of a SharedArray is frozen.
    options: JSON.parse(JSON.stringify(handed.options)),
    setup: () => {
      part?.part(handed, story, stated);
      try {
        return mintSessions(story, handed, part?.mint);
      } catch (error) {
        if (error instanceof Refusal) exec.test.abort(maskSecrets(error.message));
        throw error;
      }
    },
    run: (data: unknown) => {
      try {
        performIteration(story, {
          handed,
          takeTurn,
          sessionOf: sessions(data as Sessions),
          onAnswer: (made, step, answer) => {
            part?.call(made, step);
            counting.count(step, answer, made.intendedUs);
            floodgate.settled();
          },
          onUnsent: endInOrder,
        });
      } catch (error) {
        // Counted here, because to k6 an iteration that throws is a success.
        const message = maskSecrets(String(error));
        part?.fault({ i: exec.scenario.iterationInTest, message });
        counting.fault(message);
      }
    },
    teardown: () => undefined,
    handleSummary: (data: unknown) => {
      part?.spent();
      return { stdout: summaryText({ story, target, notes, handed }, data as SummaryData, floodgate.spent()) };
    },
  };
};

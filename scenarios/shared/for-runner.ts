/** A scenario that the runner started: it was handed everything, and prints a line for each call. */
import exec from "k6/execution";
import { maskSecrets } from "../../src/contract/credentials.ts";
import type { HandOver, Printed, PrintedFault, PrintedSpent } from "../../src/workload/handover.ts";
import type { Step } from "../../src/workload/step.ts";
import type { Story } from "../../src/workload/story.ts";
import type { Answer } from "./answer.ts";
import { type CallMade, performIteration } from "./calls.ts";
import type { Scenario } from "./k6-exports.ts";
import { endInOrder, setLease, settled, spentSoFar } from "./lease.ts";
import { turnsOf } from "./turns.ts";

// k6 has this one global of a browser, and its typings leave it out. It goes to a file that the runner reads.
declare const console: { log(text: string): void };

const print = (line: Printed | PrintedFault | PrintedSpent): void => console.log(JSON.stringify(line));

const BODY_MAX_CHARS = 2048;

/** What an outcome is named by. A body that may hold a token is cut down to the fields that a judge reads. */
const tellable = (step: Step, status: number, body: string): string => {
  if (step.route === "sdk.sessions" && status >= 200 && status < 300) {
    const { expires_in, product } = (JSON.parse(body) ?? {}) as Record<string, unknown>;
    return JSON.stringify({ expires_in, product });
  }
  if (status >= 200 && status < 300) return body.includes('"error"') ? maskSecrets(body.slice(0, BODY_MAX_CHARS)) : "";
  return maskSecrets(body.slice(0, BODY_MAX_CHARS));
};

const printAnswer = (made: CallMade, step: Step, answer: Answer): void => {
  const { isUnread: _, heldUs: __, retryAfter, ended, ...seen } = answer;
  if (ended === "not_sent") return;
  print({
    type: "call",
    ...made,
    ...seen,
    ended,
    error: maskSecrets(answer.error),
    body: tellable(step, answer.status, answer.body),
    ...(retryAfter === undefined ? {} : { retryAfter }),
  });
  settled();
};

/** The file is opened in the init context, by each VU; the runner removes it afterwards. */
export const handedByRunner = (): HandOver | null => {
  const path = __ENV.FLOODGATE_HANDOVER;
  return path === undefined || path === "" ? null : (JSON.parse(open(path)) as HandOver);
};

/**
 * An exception in k6 neither fails the run nor changes its exit code, so it is printed, and the runner makes the stage fail
 * for it.
 */
export const scenarioForRunner = (story: Story, handed: HandOver): Scenario => {
  setLease(handed.lease ?? {});
  const turns = turnsOf(handed);
  return {
    options: handed.options,
    setup: () => undefined,
    run: () => {
      try {
        performIteration(story, {
          handed,
          turns,
          sessionOf: () => undefined,
          onAnswer: printAnswer,
          onUnsent: endInOrder,
        });
      } catch (error) {
        print({
          type: "fault",
          i: handed.firstCall + exec.scenario.iterationInTest,
          message: maskSecrets(String(error)),
        });
      }
    },
    handleSummary: (data) => {
      const spent = spentSoFar();
      if (spent !== null) print(spent);
      return handed.summaryPath === undefined ? {} : { [handed.summaryPath]: JSON.stringify(data) };
    },
  };
};

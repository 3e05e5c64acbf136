/** A scenario that the runner started: it was handed everything, and prints a line for each call. */
import exec from "k6/execution";
import { maskSecrets } from "../../src/contract/credentials.ts";
import type { HandOver, Printed, PrintedFault, PrintedMint, PrintedSpent } from "../../src/workload/handover.ts";
import type { Step } from "../../src/workload/step.ts";
import type { Story } from "../../src/workload/story.ts";
import type { Answer } from "./answer.ts";
import { type CallMade, performIteration } from "./calls.ts";
import type { Scenario } from "./k6-exports.ts";
import { endInOrder, setLease, settled, spentSoFar } from "./lease.ts";
import { type SessionCall, sessionsOfVu } from "./sessions.ts";
import { Refusal } from "./stated-target.ts";
import { turnsOf } from "./turns.ts";

// k6 has this one global of a browser, and its typings leave it out. It goes to a file that the runner reads.
declare const console: { log(text: string): void };

const print = (line: Printed | PrintedMint | PrintedFault | PrintedSpent): void => console.log(JSON.stringify(line));

const BODY_MAX_CHARS = 2048;

/** What an outcome is named by. A body that may hold a token is cut down to the fields that a judge reads. */
const printable = (route: Step["route"], status: number, body: string): string => {
  if (route === "sdk.sessions" && status >= 200 && status < 300) {
    const { expires_in, product } = (JSON.parse(body) ?? {}) as Record<string, unknown>;
    return JSON.stringify({ expires_in, product });
  }
  if (status >= 200 && status < 300) return body.includes('"error"') ? maskSecrets(body.slice(0, BODY_MAX_CHARS)) : "";
  return maskSecrets(body.slice(0, BODY_MAX_CHARS));
};

/** What is printed of an answer; `null` for a call that was not sent. */
const seenOf = (route: Step["route"], answer: Answer) => {
  const { isUnread: _, heldUs: __, retryAfter, ended, ...seen } = answer;
  if (ended === "not_sent") return null;
  return {
    ...seen,
    ended,
    error: maskSecrets(answer.error),
    body: printable(route, answer.status, answer.body),
    ...(retryAfter === undefined ? {} : { retryAfter }),
  };
};

const printAnswer = (made: CallMade, step: Step, answer: Answer): void => {
  const seen = seenOf(step.route, answer);
  if (seen !== null) print({ type: "call", ...made, ...seen });
  settled();
};

const printMint = (made: SessionCall, answer: Answer): void => {
  const seen = seenOf("sdk.sessions", answer);
  if (seen !== null) print({ type: "mint", ...made, ...seen });
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
  const sessions = sessionsOfVu(story, handed, printMint);
  const turns = turnsOf(handed);
  return {
    options: handed.options,
    setup: () => undefined,
    run: () => {
      try {
        const sessionOf = sessions(handed.sessions ?? {});
        performIteration(story, { handed, turns, sessionOf, onAnswer: printAnswer, onUnsent: endInOrder });
      } catch (error) {
        print({
          type: "fault",
          i: handed.firstCall + exec.scenario.iterationInTest,
          message: maskSecrets(String(error)),
          ...(error instanceof Refusal ? { lacks: true as const } : {}),
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

/**
 * What a scenario prints for the runner: a line for each call (src/workload/handover.ts). Our own k6 writes them to a file that
 * the runner names, a call's by itself from what it has seen; a k6 without that prints them with its log.
 */
import sse from "k6/x/sse";
import { maskSecrets } from "../../src/contract/credentials.ts";
import { isObject, mayBeJson, parseJson } from "../../src/contract/envelopes.ts";
import { foreignValue, REFUSAL_BODY_MOST } from "../../src/contract/foreign-text.ts";
import type {
  HandOver,
  Printed,
  PrintedFault,
  PrintedMint,
  PrintedPart,
  PrintedSpent,
} from "../../src/workload/handover.ts";
import type { Step } from "../../src/workload/step.ts";
import type { Answer, CallMade } from "./answer.ts";
import { hasAdditions } from "./extension.ts";
import type { SessionCall } from "./sessions.ts";

// k6 has this one global of a browser, and its typings leave it out.
declare const console: { log(text: string): void };

/** What an outcome is named by. A body that may hold a token is cut down to the fields that a judge reads. */
const printable = (route: Step["route"], status: number, body: string): string => {
  const isSuccess = status >= 200 && status < 300;
  const fields = isSuccess && route === "sdk.sessions" ? parseJson(body) : undefined;
  if (isObject(fields)) {
    const { expires_in, product } = fields;
    return JSON.stringify({ expires_in: foreignValue(expires_in), product: foreignValue(product) });
  }
  if (isSuccess && mayBeJson(body) && !body.includes('"error"')) return "";
  return maskSecrets(body.slice(0, REFUSAL_BODY_MOST));
};

const masked = (error: string): string => (error === "" ? "" : maskSecrets(error));

type Seen = Omit<Printed, "type" | keyof CallMade>;

/** What is printed of an answer to a call that was sent. */
const seenOf = (route: Step["route"], answer: Answer, ended: Printed["ended"]): Seen => ({
  startedUs: answer.startedUs,
  connectUs: answer.connectUs,
  sentUs: answer.sentUs,
  firstUs: answer.firstUs,
  firstEventUs: answer.firstEventUs,
  lastEventUs: answer.lastEventUs,
  doneUs: answer.doneUs,
  status: answer.status,
  ended,
  opened: answer.opened,
  events: answer.events,
  late: answer.late,
  names: answer.names,
  gaps: answer.gaps,
  error: masked(answer.error),
  body: printable(route, answer.status, answer.body),
  aborted: answer.aborted,
  ...(answer.retryAfter === undefined ? {} : { retryAfter: answer.retryAfter }),
  ...(answer.coding === undefined ? {} : { coding: answer.coding }),
});

export type Printing = {
  /** The first line of a part of a distributed run. */
  part(handed: HandOver, story: string, target: PrintedPart["target"]): void;
  /** A call of the story, when it is over; nothing is printed of one that was not sent. */
  call(made: CallMade, step: Step, answer: Answer): void;
  mint(made: SessionCall, answer: Answer): void;
  fault(fault: Omit<PrintedFault, "type">): void;
  /** The last line. */
  spent(spent: PrintedSpent): void;
};

/** In the init context, by every VU. `path` is the file that the runner reads. */
export const printingTo = (path: string): Printing => {
  if (hasAdditions) sse.printTo(path);
  const print = (line: Printed | PrintedPart | PrintedMint | PrintedFault | PrintedSpent): void => {
    const text = JSON.stringify(line);
    if (hasAdditions) sse.print(text);
    else console.log(text);
  };
  return {
    part: ({ seed, idPrefix, view, schedule: { profile, arrivals } }, story, target) =>
      print({ type: "part", story, seed, idPrefix, view, profile, arrivals, target, atUs: Date.now() * 1000 }),
    call: (made, { route }, answer) => {
      const { ended } = answer;
      if (ended === "not_sent") return;
      if (!hasAdditions) {
        print({ type: "call", ...made, ...seenOf(route, answer, ended) });
        return;
      }
      const { i, step, attempt, intendedUs } = made;
      const body = printable(route, answer.status, answer.body);
      sse.printCall(i, step, attempt, intendedUs, body, masked(answer.error), answer.aborted);
    },
    mint: (made, answer) => {
      const { ended } = answer;
      if (ended !== "not_sent") print({ type: "mint", ...made, ...seenOf("sdk.sessions", answer, ended) });
    },
    fault: (fault) => print({ type: "fault", ...fault }),
    spent: (spent) => {
      print(spent);
      if (hasAdditions) sse.printed();
    },
  };
};

/**
 * From what a scenario printed to lines of the history: the step is computed again from the call's number, and the outcome is
 * named in the same place as for our own driver.
 */
import { lineOf } from "../../client/call-line.ts";
import type { Received } from "../../client/send-request.ts";
import { routeOf } from "../../contract/routes.ts";
import { transportCode } from "../../contract/transport-codes.ts";
import type { CallLine } from "../../history/line.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import type { Printed, PrintedMint } from "../../workload/handover.ts";
import { callId } from "../../workload/request.ts";
import { exchangeStep, type Step } from "../../workload/step.ts";
import type { Story } from "../../workload/story.ts";

export type Reading = {
  story: Story;
  seed: number;
  view: TargetView;
  stage: string;
  idPrefix: string;
  firstCall: number;
  /** When the run began, microseconds since 1970. */
  epochUs: number;
};

const DRIVER = "k6";
/** Its clock and ours are read from the same one of the host, each once, at its start. */
const CLOCK_ERROR_US = 1_000;

const receivedOf = (
  step: Step,
  printed: Omit<Printed, "type" | "i" | "step" | "attempt" | "intendedUs">,
  epochUs: number,
): Received => {
  const isStream = step.route !== "-" && routeOf(step.route).stream !== undefined;
  const since = (us: number | null): number | null => (us === null ? null : us - epochUs);
  const startedUs = printed.startedUs - epochUs;
  const answered = printed.status !== 0;
  return {
    sent: printed.sentUs !== null,
    startedUs,
    connectUs: printed.connectUs === 0 ? 0 : printed.connectUs - epochUs,
    sentUs: since(printed.sentUs) ?? startedUs,
    // A head of which only a part came is no answer.
    firstUs: answered ? since(printed.firstUs) : null,
    doneUs: printed.doneUs - epochUs,
    status: answered ? printed.status : null,
    headers: {
      ...(printed.retryAfter === undefined ? {} : { "retry-after": printed.retryAfter }),
      ...(printed.coding === undefined ? {} : { "content-encoding": printed.coding }),
    },
    text: printed.body,
    ended: printed.ended,
    seen:
      isStream && printed.opened
        ? {
            events: printed.events,
            late: printed.late,
            firstUs: since(printed.firstEventUs),
            lastUs: since(printed.lastEventUs),
            terminal: null,
            names: new Set(printed.names),
            gapsUs: printed.gaps,
            kept: [],
          }
        : null,
    ...(printed.error === "" ? {} : { error: wordOf(printed) }),
    aborted: printed.aborted,
  };
};

/** The extension names the error by its type; a k6 without it leaves Go's sentence. */
const wordOf = ({ error, code }: Pick<Printed, "error" | "code">): string => {
  const after = "after the terminal event: ";
  return code === undefined ? transportCode(error) : (error.startsWith(after) ? after : "") + transportCode(code);
};

/** The line of a call that minted a session anew: due when it was sent. */
export const mintLineFrom = (printed: PrintedMint, { view, stage, epochUs }: Reading): CallLine => {
  const step = exchangeStep(view, 0, printed.of, printed.product);
  const context = {
    id: printed.id,
    stage,
    driver: DRIVER,
    intendedUs: printed.startedUs - epochUs,
    unscheduled: "mint" as const,
  };
  return lineOf(step, receivedOf(step, printed, epochUs), context, CLOCK_ERROR_US);
};

/** `null` when the printed call is none of the story's: the scenario and the runner disagree about what it is. */
export const lineFrom = (printed: Printed, reading: Reading): CallLine | null => {
  const step = reading.story.plan(reading.seed, printed.i, reading.view)[printed.step];
  if (step === undefined) return null;
  const context = {
    id: callId(reading.idPrefix, printed.i, printed.step, printed.attempt),
    stage: reading.stage,
    driver: DRIVER,
    intendedUs: printed.intendedUs - reading.epochUs,
    attempt: printed.attempt,
    ...(printed.step === 0 ? {} : { unscheduled: "step" as const }),
  };
  return lineOf(step, receivedOf(step, printed, reading.epochUs), context, CLOCK_ERROR_US);
};

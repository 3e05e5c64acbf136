/**
 * From what a scenario printed to lines of the history: the step is computed again from the call's number, the outcome is
 * named in the same place as for our own driver, and the intended moment comes from the schedule.
 */

import { lineOf } from "../../client/call-line.ts";
import type { ObservedLine } from "../../client/observed-line.ts";
import type { Received } from "../../client/send-request.ts";
import { routeOf } from "../../contract/routes.ts";
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
  /** The schedule in microseconds after the start; `null` where k6 does only a part of it. */
  schedule: readonly number[] | null;
  /** Since when iterations were dropped, microseconds since 1970: nobody knows which moment one was meant for after that. */
  droppedSinceUs?(): number | null;
};

const DRIVER = "k6";
/** k6 starts its schedule at a moment that it gives in whole milliseconds. */
const CLOCK_ERROR_US = 1_000;

const receivedOf = (
  step: Step,
  printed: Omit<Printed, "type" | "i" | "step" | "attempt">,
  epochUs: number,
): Received => {
  const isStream = step.route !== "-" && routeOf(step.route).stream !== undefined;
  const doneUs = printed.doneUs - epochUs;
  const firstEventUs = printed.firstUs === null ? null : printed.firstUs - epochUs;
  const answered = printed.status !== 0;
  // The extension says when the last byte of a plain answer came, not the first.
  const firstUs = printed.opened ? firstEventUs : answered ? doneUs : null;
  return {
    // What was spent is counted by the extension, which sends.
    sent: true,
    sentUs: printed.sentUs - epochUs,
    firstUs,
    doneUs,
    status: answered ? printed.status : null,
    headers: printed.retryAfter === undefined ? {} : { "retry-after": printed.retryAfter },
    text: printed.body,
    ended: printed.ended,
    seen:
      isStream && printed.opened
        ? {
            events: printed.events,
            late: printed.late,
            firstUs: firstEventUs,
            // Only the end of the stream is timed; of events that came late nobody knows when the last one did.
            lastUs: printed.late === 0 && printed.ended === "done" ? doneUs : null,
            terminal: null,
            names: new Set(printed.names),
            gapsUs: [],
            kept: [],
          }
        : null,
    ...(printed.error === "" ? {} : { error: transportWord(printed.error) }),
    aborted: printed.aborted,
  };
};

/** Go's sentences by the words that our own driver uses, as far as they have one. */
const transportWord = (text: string): string => {
  const after = text.startsWith("after the terminal event: ") ? "after the terminal event: " : "";
  const words: [RegExp, string][] = [
    [/connection refused/, "ECONNREFUSED"],
    [/connection reset/, "ECONNRESET"],
    [/broken pipe/, "EPIPE"],
    [/first event/, "first-event-timeout"],
    [/timeout/, "timeout"],
    [/\bEOF\b/, "EOF"],
  ];
  return after + (words.find(([pattern]) => pattern.test(text))?.[1] ?? text.slice(0, 120));
};

/** The line of a call that minted a session anew: due when it was sent. */
export const mintLineFrom = (printed: PrintedMint, { view, stage, epochUs }: Reading): ObservedLine => {
  const step = exchangeStep(view, 0, printed.of, printed.product);
  const context = { id: printed.id, stage, driver: DRIVER, intendedUs: printed.sentUs - epochUs };
  return lineOf(step, receivedOf(step, printed, epochUs), context, CLOCK_ERROR_US);
};

const intendedUs = (printed: Printed, reading: Reading): number => {
  const sentUs = printed.sentUs - reading.epochUs;
  if (reading.schedule === null || printed.step > 0 || printed.attempt > 0) return sentUs;
  const droppedSinceUs = reading.droppedSinceUs?.() ?? null;
  // Its own start stands for it then.
  if (droppedSinceUs !== null && printed.sentUs >= droppedSinceUs) return sentUs;
  const offset = reading.schedule[printed.i - reading.firstCall];
  return offset === undefined ? sentUs : printed.beganMs * 1000 - reading.epochUs + offset;
};

/** `null` when the printed call is none of the story's: the scenario and the runner disagree about what it is. */
export const lineFrom = (printed: Printed, reading: Reading): ObservedLine | null => {
  const step = reading.story.plan(reading.seed, printed.i, reading.view)[printed.step];
  if (step === undefined) return null;
  const context = {
    id: callId(reading.idPrefix, printed.i, printed.step, printed.attempt),
    stage: reading.stage,
    driver: DRIVER,
    intendedUs: intendedUs(printed, reading),
  };
  return lineOf(step, receivedOf(step, printed, reading.epochUs), context, CLOCK_ERROR_US);
};

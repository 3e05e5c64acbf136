/**
 * What a k6 run amounts to: the lines that its scenario printed as lines of the history, k6's own counts, and what puts the two
 * in doubt. k6 ends with code 0 for exceptions in iterations, for dropped ones and for none at all, so each is looked for.
 */
import { readFile } from "node:fs/promises";
import { lineOf } from "../../client/call-line.ts";
import type { Received } from "../../client/send-request.ts";
import { routeOf } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";
import { Histogram } from "../../history/statistics/histogram.ts";
import { unreadSentence } from "../../supervision/lines.ts";
import type { Stopped } from "../../workload/budget.ts";
import type { Printed, PrintedFault, PrintedMint, PrintedSpent } from "../../workload/handover.ts";
import { callId } from "../../workload/request.ts";
import { exchangeStep, type Step } from "../../workload/step.ts";
import type { Story } from "../../workload/story.ts";
import type { DriveJob, Problem } from "../driver.ts";
import { lagDoubt, lagFigures } from "../host-notes.ts";
import { ABORTED, exitProblem, type K6Exit } from "./k6-process.ts";

/** The step of a printed call is computed again from its number. */
type Reading = Pick<DriveJob, "seed" | "view" | "stage" | "idPrefix" | "epochUs"> & { story: Story };

const DRIVER = "k6";
/** Both clocks are the host's, each read once at its start. */
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
    firstUs: answered ? since(printed.firstUs) : null,
    doneUs: printed.doneUs - epochUs,
    status: answered ? printed.status : null,
    headers: { "retry-after": printed.retryAfter, "content-encoding": printed.coding },
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
    error: printed.error === "" ? undefined : printed.error,
    aborted: printed.aborted,
  };
};

const mintLineFrom = (printed: PrintedMint, { view, stage, epochUs }: Reading): CallLine => {
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
const lineFrom = (printed: Printed, reading: Reading): CallLine | null => {
  const step = reading.story.plan(reading.seed, printed.i, reading.view)[printed.step];
  if (step === undefined) return null;
  const context = {
    id: callId(reading.idPrefix, printed.i, printed.step, printed.attempt),
    stage: reading.stage,
    driver: DRIVER,
    intendedUs: printed.intendedUs - reading.epochUs,
    attempt: printed.attempt,
    unscheduled: printed.step === 0 ? undefined : ("step" as const),
  };
  return lineOf(step, receivedOf(step, printed, reading.epochUs), context, CLOCK_ERROR_US);
};

type Summary = { metrics?: Record<string, { values?: { count?: number } } | undefined> };

export const readSummary = async (path: string): Promise<{ iterations: number; dropped: number } | null> => {
  try {
    const { metrics } = JSON.parse(await readFile(path, "utf8")) as Summary;
    const count = (name: string): number => metrics?.[name]?.values?.count ?? 0;
    return { iterations: count("iterations"), dropped: count("dropped_iterations") };
  } catch {
    return null;
  }
};

type FromScenario = Printed | PrintedMint | PrintedFault | PrintedSpent;

type Seen = {
  lines: number;
  calls: Set<number>;
  faults: PrintedFault[];
  strangers: number;
  lag: Histogram;
  /** The last line; `null` where k6 did not come so far. */
  end: PrintedSpent | null;
};

export const createReader = (
  reading: Reading,
  onLine: (line: CallLine) => void,
): { seen: Seen; take(text: string): void } => {
  const seen: Seen = { lines: 0, calls: new Set(), faults: [], strangers: 0, lag: new Histogram(), end: null };
  const read = (text: string): void => {
    const printed = JSON.parse(text) as FromScenario;
    if (printed.type === "spent") {
      if (typeof printed.spent?.requests !== "number") throw new Error("it does not say what was spent");
      seen.end = printed;
      return;
    }
    if (printed.type === "fault") {
      seen.faults.push(printed);
      seen.calls.add(printed.i);
      return;
    }
    if (printed.type === "mint") {
      seen.lines += 1;
      onLine(mintLineFrom(printed, reading));
      return;
    }
    const line = lineFrom(printed, reading);
    if (line === null) {
      seen.strangers += 1;
      return;
    }
    seen.lines += 1;
    if (line.attempt === 0 && line.unscheduled === undefined) seen.lag.record(line.started_us - line.intended_us);
    seen.calls.add(printed.i);
    onLine(line);
  };
  const take = (text: string): void => {
    try {
      read(text);
    } catch {
      seen.strangers += 1;
    }
  };
  return { seen, take };
};

/** An end that the runner asked for stops nothing early. */
export const stoppedBy = ({ end }: Seen): Stopped | null =>
  end?.stopped?.by === "asked" ? null : (end?.stopped ?? null);

type Outcome = { exit: K6Exit; summary: { iterations: number; dropped: number } | null; seen: Seen };

export const problemsOf = ({ exit, summary, seen }: Outcome): Problem[] => {
  const problems: Problem[] = [];
  const say = (verdict: Problem["verdict"], reason: string, about?: "time"): void => {
    problems.push({ verdict, reason, about });
  };
  const stopped = stoppedBy(seen);
  const isEnded = (seen.end?.stopped ?? null) !== null;
  const exited = exitProblem(exit);
  if (stopped !== null) say("inconclusive", `stopped early: ${stopped.reason}`);
  // The script ends the test itself when nothing may leave any more.
  if (isEnded && (exited === null || exit.code === ABORTED)) {
  } else if (exited !== null) problems.push(exited);
  else if (exit.errorCount > 0) say("inconclusive", `k6 logged ${exit.errorCount} errors: ${exit.errors[0]}`);
  const lacking = seen.faults.filter(({ lacks }) => lacks === true);
  const thrown = seen.faults.filter(({ lacks }) => lacks !== true);
  if (thrown.length > 0)
    say("inconclusive", `the scenario threw in ${thrown.length} iterations: ${thrown[0]?.message}`);
  if (lacking.length > 0) say("inconclusive", `${lacking.length} iterations made no call: ${lacking[0]?.message}`);
  if (seen.lines === 0) say("inconclusive", "k6 made no calls");
  if (seen.strangers > 0) say("inconclusive", unreadSentence(seen.strangers, "the scenario") as string);
  if (summary === null) {
    if (exited === null) say("inconclusive", "k6 wrote no summary, so nobody knows what it left out");
    return problems;
  }
  if ((seen.end?.cut ?? 0) > 0) say("inconclusive", `${seen.end?.cut} calls were cut off at the end and have no line`);
  if (isEnded) return problems;
  const { iterations, dropped } = summary;
  if (dropped > 0) {
    const all = iterations + dropped;
    say(
      "inconclusive",
      `the generator was the bottleneck: ${dropped} of ${all} calls were so late that they were given up; ask for a lower rate, or share it out (--segments)`,
    );
  }
  const late = lagDoubt(lagFigures(seen.lag));
  if (late !== null) say("inconclusive", late, "time");
  if (seen.calls.size < iterations) {
    say("inconclusive", `${iterations - seen.calls.size} of ${iterations} iterations left no line`);
  }
  return problems;
};

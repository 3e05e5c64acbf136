/**
 * Turns a k6 run into history lines, k6's own counts, and problems. k6 exits with code 0 even if iterations threw, were
 * dropped or never ran, so each of these is checked.
 */
import { readFile } from "node:fs/promises";
import { type CallContext, lineOf } from "../../client/call-line.ts";
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

type Reading = Pick<DriveJob, "seed" | "view" | "stage" | "idPrefix" | "epochUs"> & { story: Story };

/** Bound on the clock error: runner and k6 each read the host's clock once, at their start. */
const CLOCK_ERROR_US = 1_000;

const receivedOf = (step: Step, printed: Printed | PrintedMint, epochUs: number): Received => {
  const isStream = step.route !== "-" && routeOf(step.route).stream !== undefined;
  const since = (us: number | null): number | null => (us === null ? null : us - epochUs);
  const startedUs = printed.startedUs - epochUs;
  const answered = printed.status !== 0;
  const { ended, aborted, events, late } = printed;
  const seen: Received["seen"] = {
    ...{ events, late, firstUs: since(printed.firstEventUs), lastUs: since(printed.lastEventUs), terminal: null },
    ...{ names: new Set(printed.names), gapsUs: printed.gaps, kept: [] },
  };
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
    error: printed.error === "" ? undefined : printed.error,
    seen: isStream && printed.opened ? seen : null,
    ...{ ended, aborted },
  };
};

/** `null` if the story has no such call, because scenario and runner disagree about the story. */
const lineFrom = (printed: Printed | PrintedMint, reading: Reading): CallLine | null => {
  const { story, seed, view, stage, idPrefix, epochUs } = reading;
  const lineAs = (step: Step, dueUs: number, own: Pick<CallContext, "id" | "attempt" | "unscheduled">): CallLine => {
    const context: CallContext = { ...own, stage, driver: "k6", intendedUs: dueUs - epochUs };
    return lineOf(step, receivedOf(step, printed, epochUs), context, CLOCK_ERROR_US);
  };
  if (printed.type === "mint") {
    const { id, of, product, startedUs } = printed;
    return lineAs(exchangeStep(view, 0, of, product), startedUs, { id, unscheduled: "mint" });
  }
  const { i, step: at, attempt, intendedUs } = printed;
  const step = story.plan(seed, i, view)[at];
  if (step === undefined) return null;
  const id = callId(idPrefix, i, at, attempt);
  return lineAs(step, intendedUs, { id, attempt, unscheduled: at === 0 ? undefined : "step" });
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

type Seen = {
  lines: number;
  calls: Set<number>;
  faults: PrintedFault[];
  strangers: number;
  lag: Histogram;
  /** The last line; `null` if k6 ended before it. */
  end: PrintedSpent | null;
};

export const createReader = (reading: Reading, onLine: (line: CallLine) => void) => {
  const seen: Seen = { lines: 0, calls: new Set(), faults: [], strangers: 0, lag: new Histogram(), end: null };
  const read = (text: string): void => {
    const printed = JSON.parse(text) as Printed | PrintedMint | PrintedFault | PrintedSpent;
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
    const line = lineFrom(printed, reading);
    if (line === null) throw new Error("it is no call of the story");
    seen.lines += 1;
    if (line.attempt === 0 && line.unscheduled === undefined) seen.lag.record(line.started_us - line.intended_us);
    if (printed.type === "call") seen.calls.add(printed.i);
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

/** Why the load stopped early; `null` if it did not, or if the runner asked for the end. */
export const stoppedBy = ({ end }: Seen): Stopped | null =>
  end?.stopped?.by === "asked" ? null : (end?.stopped ?? null);

type Outcome = { exit: K6Exit; summary: { iterations: number; dropped: number } | null; seen: Seen };

export const problemsOf = ({ exit, summary, seen }: Outcome): Problem[] => {
  const problems: Problem[] = [];
  const say = (isSo: boolean, reason: string | null, about?: "time"): void => {
    if (isSo && reason !== null) problems.push({ verdict: "inconclusive", reason, about });
  };
  const { faults, lines, strangers, calls, end } = seen;
  const stopped = stoppedBy(seen);
  const isEnded = (end?.stopped ?? null) !== null;
  const exited = exitProblem(exit);
  // The script aborts the test itself when the budget lets no call leave.
  const isExpected = isEnded && (exited === null || exit.code === ABORTED);
  const lacking = faults.filter(({ lacks }) => lacks === true);
  const thrown = faults.filter(({ lacks }) => lacks !== true);
  const cut = end?.cut ?? 0;
  say(stopped !== null, `stopped early: ${stopped?.reason}`);
  if (exited !== null && !isExpected) problems.push(exited);
  say(exited === null && !isExpected && exit.errorCount > 0, `k6 logged ${exit.errorCount} errors: ${exit.errors[0]}`);
  say(thrown.length > 0, `the scenario threw in ${thrown.length} iterations: ${thrown[0]?.message}`);
  say(lacking.length > 0, `${lacking.length} iterations made no call: ${lacking[0]?.message}`);
  say(lines === 0, "k6 made no calls");
  say(true, unreadSentence(strangers, "the scenario"));
  say(summary === null && exited === null, "k6 wrote no summary, so nobody knows what it left out");
  say(summary !== null && cut > 0, `${cut} calls were cut off at the end and have no line`);
  if (summary === null || isEnded) return problems;
  const { iterations, dropped } = summary;
  const givenUp = `${dropped} of ${iterations + dropped} calls were so late that they were given up`;
  const cure = "ask for a lower rate, or share it out (--segments)";
  say(dropped > 0, `the generator was the bottleneck: ${givenUp}; ${cure}`);
  say(true, lagDoubt(lagFigures(seen.lag)), "time");
  say(calls.size < iterations, `${iterations - calls.size} of ${iterations} iterations left no line`);
  return problems;
};

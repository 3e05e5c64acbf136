/**
 * What a k6 run amounts to: the lines that its scenario printed, k6's own counts, and what puts the two in doubt. k6 ends
 * with code 0 for exceptions in iterations, for dropped ones and for none at all, so each is looked for.
 */

import { readFile } from "node:fs/promises";
import type { CallLine } from "../../history/line.ts";
import { unreadSentence } from "../../supervision/lines.ts";
import { type Budget, isUnit, spentSentence } from "../../workload/budget.ts";
import type { Printed, PrintedFault, PrintedMint, PrintedSpent } from "../../workload/handover.ts";
import type { Problem } from "../driver.ts";
import { createLagTable, type LagTable, lagDoubt } from "../schedule-lag.ts";
import { ABORTED, exitProblem, type K6Exit } from "./k6-process.ts";
import { lineFrom, mintLineFrom, type Reading } from "./lines.ts";

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
  /** Of the first attempts of arrivals. */
  lag: LagTable;
  /** The last line; `null` where k6 did not come so far. */
  end: PrintedSpent | null;
};

/** A line as the scenario printed it; a k6 without our extension wraps it in one of its own log. */
const printedIn = (text: string): FromScenario => {
  const line = JSON.parse(text) as FromScenario | { type?: undefined; msg: string };
  return line.type === undefined ? (JSON.parse(line.msg) as FromScenario) : line;
};

/** Takes what the scenario prints, line by line. */
export const createReader = (
  reading: Reading,
  onLine: (line: CallLine) => void,
): { seen: Seen; take(text: string): void } => {
  const seen: Seen = { lines: 0, calls: new Set(), faults: [], strangers: 0, lag: createLagTable(), end: null };
  const read = (text: string): void => {
    let printed: FromScenario;
    try {
      printed = printedIn(text);
    } catch {
      seen.strangers += 1;
      return;
    }
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
    if (line.attempt === 0 && line.unscheduled === undefined) seen.lag.add(line.started_us - line.intended_us);
    seen.calls.add(printed.i);
    onLine(line);
  };
  const take = (text: string): void => {
    try {
      read(text);
    } catch {
      // It has the notation of a line and not its fields.
      seen.strangers += 1;
    }
  };
  return { seen, take };
};

/** What the extension says when it was sent SIGUSR1 (src/native/sse/stop_unix.go): that the load ends is then what was wanted. */
const ASKED = "the runner asked to stop";

/** Why the budget let nothing leave any more. The process knows its share of a budget; the sentence names the whole. */
export const stoppedBy = ({ end }: Seen, stated: Budget): string | null => {
  const stopped = end?.stopped ?? null;
  const [, unit] = /^budget\.(\w+) of the target file is spent/.exec(stopped ?? "") ?? [];
  if (isUnit(unit)) return spentSentence(unit, stated);
  return stopped === ASKED ? null : stopped;
};

type Outcome = { stated: Budget; exit: K6Exit; summary: { iterations: number; dropped: number } | null; seen: Seen };

export const problemsOf = ({ exit, summary, seen, stated }: Outcome): Problem[] => {
  const problems: Problem[] = [];
  const say = (verdict: Problem["verdict"], reason: string, about?: "time"): void => {
    problems.push({ verdict, reason, ...(about === undefined ? {} : { about }) });
  };
  const stopped = stoppedBy(seen, stated);
  const isEnded = (seen.end?.stopped ?? null) !== null;
  const exited = exitProblem(exit);
  if (stopped !== null) say("inconclusive", `stopped early: ${stopped}`);
  // The script ends the test itself when nothing may leave any more.
  if (isEnded && (exited === null || exit.code === ABORTED)) {
    // That is no fault of k6.
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
  // What did not happen after that was not meant to.
  if (isEnded) return problems;
  const { iterations, dropped } = summary;
  if (dropped > 0) {
    const all = iterations + dropped;
    say(
      "inconclusive",
      `the generator was the bottleneck: ${dropped} of ${all} calls were so late that they were given up; ask for a lower rate, or share it out (--segments)`,
    );
  }
  const late = lagDoubt(seen.lag.figures());
  if (late !== null) say("inconclusive", late, "time");
  if (seen.calls.size < iterations) {
    say("inconclusive", `${iterations - seen.calls.size} of ${iterations} iterations left no line`);
  }
  return problems;
};

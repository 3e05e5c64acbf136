/**
 * One process of k6: runs the binary in a clean environment, and turns its log, exit code, printed lines and summary
 * into history lines and problems. k6 exits with code 0 even if iterations threw, were dropped or never ran, so each of
 * these is checked.
 */
import { open, readFile } from "node:fs/promises";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { type CallContext, lineOf } from "../../client/api-client.ts";
import type { Received } from "../../client/send-request.ts";
import { foreignName } from "../../contract/foreign-text.ts";
import { parseJson } from "../../contract/refusals.ts";
import { isStreamed } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";
import { BROKEN, type OpenCode, openBy } from "../../history/reason-codes.ts";
import { Histogram } from "../../history/statistics/histogram.ts";
import { boundChild, signalInWords, spawnChild } from "../../supervision/child.ts";
import { cutLines, readLines, unreadSentence } from "../../supervision/lines.ts";
import { runMark } from "../../supervision/processes.ts";
import { redactor } from "../../supervision/redaction.ts";
import type { Printed, PrintedFault, PrintedMint, PrintedNothing, PrintedSpent } from "../../workload/handover.ts";
import { callId, exchangeStep, type Step } from "../../workload/step.ts";
import type { Story } from "../../workload/story.ts";
import { type DriveJob, lagDoubt, lagFigures, type Problem } from "../driver.ts";

type K6Exit = {
  code: number | null;
  signal: NodeJS.Signals | null;
  errors: string[];
  errorCount: number;
  warnings: string[];
  late?: string | null;
};

const KEPT = 5;

const ABORTED = 108;

/** The exit codes of k6 2.2 (its package `errext/exitcodes`). */
const EXIT_CODES: Readonly<Record<number, string>> = {
  2: "k6 itself panicked",
  97: "the run in k6's cloud failed or was aborted",
  98: "the progress of the run in k6's cloud was lost",
  99: "a threshold was crossed",
  100: "setup() took too long",
  101: "teardown() took too long",
  102: "k6 took too long",
  103: "it was stopped over REST",
  104: "the options were not valid",
  105: "it was stopped by a signal",
  106: "its REST server could not start",
  107: "the script threw outside an iteration",
  [ABORTED]: "the script aborted the test",
  109: "k6 itself panicked",
  110: "the script marked the test as failed",
};
/** Exit codes that speak against the deployment. After any other, such as a script's exception, nothing was judged. */
const FAILS: ReadonlySet<number | null> = new Set([99, 110]);

export const exitProblem = ({ code, signal, errors, late }: K6Exit): Problem | null => {
  if (code === 0) return null;
  const ended =
    code === null ? null : `ended with code ${code}, ${EXIT_CODES[code] ?? "an error that has no code of its own"}`;
  const killed = signal === null ? "could not be started" : `was ended by ${signalInWords(signal)}`;
  const how = late != null ? `did not ${late} in time and was ended` : (ended ?? killed);
  const ruling = late == null && FAILS.has(code) ? BROKEN : openBy("program-failed");
  return { ...ruling, reason: `k6 ${how}${errors[0] === undefined ? "" : `: ${errors[0]}`}` };
};

/** The user's variables for k6's own outputs, which are passed on if `K6_OUT` is set. */
const NAMES = /^(?:K6_OUT|OTEL_.+|K6_(?:OTEL|PROMETHEUS_RW|INFLUXDB|STATSD|WEB_DASHBOARD|CLOUD)_.+)$/;
const SECRET = /PASSWORD|TOKEN|HEADER|KEY|USERNAME/;

export const k6Outputs = (env: Readonly<Record<string, string | undefined>>): Record<string, string> => {
  if (env.K6_OUT === undefined || env.K6_OUT === "") return {};
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || !NAMES.test(name)) continue;
    if (SECRET.test(name)) redactor.register(value, name);
    else redactor.registerUrl(value.replace(/^[\w-]+=/, ""), name);
    kept[name] = value;
  }
  return kept;
};

/** No usage report, and no download of extensions. */
export const K6_SETTINGS = { K6_NO_USAGE_REPORT: "true", K6_AUTO_EXTENSION_RESOLUTION: "false" };

/** Starts k6 in a process group of its own, with only its own variables, our settings and the user's outputs. */
export const startK6 = (binary: string, args: readonly string[], own: Record<string, string>, folder: string) => {
  const child = spawnChild(binary, args, {
    cwd: folder,
    env: { ...K6_SETTINGS, HOME: folder, ...k6Outputs(process.env), ...own, ...runMark() },
    stdio: ["ignore", "ignore", "pipe"],
    detached: true,
  });
  const exit: K6Exit = { code: null, signal: null, errors: [], errorCount: 0, warnings: [] };
  readLines(child.stderr as Readable, (line) => {
    if (line.trim() === "") return;
    const { level = "error", msg = line } = (parseJson(line) ?? {}) as { level?: string; msg?: string };
    const said = redactor.redact(`${msg}`.trim().split("\n").slice(0, 3).join(" "));
    if (level === "error" || level === "fatal" || level === "panic") {
      exit.errorCount += 1;
      if (exit.errors.length < KEPT) exit.errors.push(said);
    } else if (level === "warning" && exit.warnings.length < KEPT) exit.warnings.push(said);
  });
  const bound = boundChild(child);
  const exited = bound.ended.then(({ code, signal, error, late }): K6Exit => {
    if (error !== null) exit.errors.unshift(error);
    return { ...exit, code, signal, late };
  });
  return { ...bound, child, exited };
};

const LOOK_EVERY_MS = 50;
const CHUNK_BYTES = 1 << 18;

/** Reads a file while it is written, and to its last line when it is `written`. Rejects with what `onLine` throws. */
export const followLines = async (path: string, onLine: (text: string) => void, written: Promise<unknown>) => {
  let isOver = false;
  void written.then(() => {
    isOver = true;
  });
  await using file = await open(path, "r");
  const buffer = Buffer.alloc(CHUNK_BYTES);
  const lines = cutLines(onLine);
  for (;;) {
    // Taken before the read, so that everything written before the end is still read.
    const wasOver = isOver;
    const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES, null);
    if (bytesRead > 0) lines.push(buffer.subarray(0, bytesRead));
    else if (wasOver) return lines.end();
    else await sleep(LOOK_EVERY_MS);
  }
};

type Reading = Pick<DriveJob, "seed" | "view" | "stage" | "idPrefix" | "epochUs"> & {
  story: Story;
  /** How far the clocks of the machines that played may be apart; none where one machine did. */
  clocksApartUs?: number;
};

/** Bound on the clock error: runner and k6 each read the host's clock once, at their start. */
const CLOCK_ERROR_US = 1_000;

const receivedOf = (step: Step, printed: Printed | PrintedMint, epochUs: number): Received => {
  const since = (us: number | null): number | null => (us === null ? null : us - epochUs);
  const startedUs = printed.startedUs - epochUs;
  const answered = printed.status !== 0;
  const { ended, aborted, events, late } = printed;
  const seen: Received["seen"] = {
    ...{ events, late, firstUs: since(printed.firstEventUs), lastUs: since(printed.lastEventUs), terminal: null },
    ...{ names: new Set(printed.names.map(foreignName)), gapsUs: printed.gaps, kept: [] },
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
    seen: isStreamed(step) && printed.opened ? seen : null,
    ...{ ended, aborted },
  };
};

const lineFrom = (printed: Printed | PrintedMint, reading: Reading): CallLine => {
  const { story, seed, view, stage, idPrefix, epochUs, clocksApartUs = 0 } = reading;
  const lineAs = (step: Step, dueUs: number, own: Pick<CallContext, "id" | "attempt" | "unscheduled">): CallLine => {
    const context: CallContext = { ...own, stage, driver: "k6", intendedUs: dueUs - epochUs };
    return lineOf(step, receivedOf(step, printed, epochUs), context, CLOCK_ERROR_US + clocksApartUs);
  };
  if (printed.type === "mint") {
    const { id, of, product, startedUs } = printed;
    return lineAs(exchangeStep(view, 0, of, product), startedUs, { id, unscheduled: "mint" });
  }
  const { i, step: at, attempt, intendedUs } = printed;
  const step = story.plan(seed, i, view)[at];
  // Scenario and runner disagree about the story.
  if (step === undefined) throw new Error("it is no call of the story");
  const id = callId(idPrefix, i, at, attempt);
  return lineAs(step, intendedUs, { id, attempt, unscheduled: at === 0 ? undefined : "step" });
};

type Summary = { iterations: number; dropped: number };

export const readSummary = async (path: string): Promise<Summary | null> => {
  try {
    const { metrics } = JSON.parse(await readFile(path, "utf8"));
    const count = (name: string): number => metrics?.[name]?.values?.count ?? 0;
    return { iterations: count("iterations"), dropped: count("dropped_iterations") };
  } catch {
    return null;
  }
};

type Seen = ReturnType<typeof createReader>["seen"];

export const createReader = (reading: Reading, onLine: (line: CallLine) => void) => {
  const seen = {
    ...{ lines: 0, strangers: 0, calls: new Set<number>(), faults: [] as PrintedFault[], lag: new Histogram() },
    /** The last line; `null` if k6 ended before it. */
    end: null as PrintedSpent | null,
  };
  const read = (text: string): void => {
    const printed = JSON.parse(text) as Printed | PrintedMint | PrintedFault | PrintedNothing | PrintedSpent;
    if (printed.type === "spent") {
      if (typeof printed.spent?.requests !== "number") throw new Error("it does not say what was spent");
      seen.end = printed;
      return;
    }
    if (printed.type === "fault") seen.faults.push(printed);
    if (printed.type === "fault" || printed.type === "nothing") return void seen.calls.add(printed.i);
    const line = lineFrom(printed, reading);
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
export const stoppedBy = ({ end }: Seen) => (end?.stopped?.by === "asked" ? null : (end?.stopped ?? null));

export const problemsOf = (exit: K6Exit, summary: Summary | null, seen: Seen): Problem[] => {
  const problems: Problem[] = [];
  const say = (code: OpenCode, isSo: boolean, reason: string | null, about?: "time"): void => {
    if (isSo && reason !== null) problems.push({ ...openBy(code), reason, about });
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
  say(stopped?.by === "spent" ? "budget-spent" : "stopped", stopped !== null, `stopped early: ${stopped?.reason}`);
  if (exited !== null && !isExpected) problems.push(exited);
  say(
    "program-failed",
    exited === null && !isExpected && exit.errorCount > 0,
    `k6 logged ${exit.errorCount} errors: ${exit.errors[0]}`,
  );
  say("program-failed", thrown.length > 0, `the scenario threw in ${thrown.length} iterations: ${thrown[0]?.message}`);
  say("role-missing", lacking.length > 0, `${lacking.length} iterations made no call: ${lacking[0]?.message}`);
  say("too-few-calls", lines === 0, "k6 made no calls");
  say("not-recorded", true, unreadSentence(strangers, "the scenario"));
  say("not-recorded", summary === null && exited === null, "k6 wrote no summary, so nobody knows what it left out");
  say("not-recorded", summary !== null && cut > 0, `${cut} calls were cut off at the end and have no line`);
  if (summary === null || isEnded) return problems;
  const { iterations, dropped } = summary;
  const givenUp = `${dropped} of ${iterations + dropped} calls were so late that they were given up`;
  const cure = "ask for a lower rate, or share it out (--segments)";
  say("generator-was-the-limit", dropped > 0, `the generator was the bottleneck: ${givenUp}; ${cure}`);
  say("generator-was-the-limit", true, lagDoubt(lagFigures(seen.lag)), "time");
  say("not-recorded", calls.size < iterations, `${iterations - calls.size} of ${iterations} iterations left no line`);
  return problems;
};

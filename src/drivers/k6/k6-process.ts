/** Runs the k6 binary in a clean environment and collects what it says; knows what its exit codes mean. */

import { type ChildProcess, spawn } from "node:child_process";
import { type BoundedChild, boundChild } from "../../supervision/bounded-child.ts";
import { readLines } from "../../supervision/lines.ts";
import { runMark } from "../../supervision/processes.ts";
import { redact, redactor } from "../../supervision/redaction.ts";
import type { Problem } from "../driver.ts";

export type K6Exit = {
  code: number | null;
  signal: NodeJS.Signals | null;
  errors: string[];
  errorCount: number;
  warnings: string[];
  late?: string | null;
};

const KEPT = 5;

export const ABORTED = 108;

/** `errext/exitcodes` of k6 2.2. */
const EXIT_CODES: Readonly<Record<number, { verdict: Problem["verdict"]; meaning: string }>> = {
  2: { verdict: "inconclusive", meaning: "k6 itself panicked" },
  97: { verdict: "inconclusive", meaning: "the run in k6's cloud failed or was aborted" },
  98: { verdict: "inconclusive", meaning: "the progress of the run in k6's cloud was lost" },
  99: { verdict: "fail", meaning: "a threshold was crossed" },
  100: { verdict: "inconclusive", meaning: "setup() took too long" },
  101: { verdict: "inconclusive", meaning: "teardown() took too long" },
  102: { verdict: "inconclusive", meaning: "k6 took too long" },
  103: { verdict: "inconclusive", meaning: "it was stopped over REST" },
  104: { verdict: "inconclusive", meaning: "the options were not valid" },
  105: { verdict: "inconclusive", meaning: "it was stopped by a signal" },
  106: { verdict: "inconclusive", meaning: "its REST server could not start" },
  // An exception of a script says nothing against the deployment, and nothing was judged.
  107: { verdict: "inconclusive", meaning: "the script threw outside an iteration" },
  [ABORTED]: { verdict: "inconclusive", meaning: "the script aborted the test" },
  109: { verdict: "inconclusive", meaning: "k6 itself panicked" },
  110: { verdict: "fail", meaning: "the script marked the test as failed" },
};

export const exitProblem = ({ code, signal, errors, late }: K6Exit): Problem | null => {
  if (code === 0) return null;
  const first = errors[0] === undefined ? "" : `: ${errors[0]}`;
  if (late != null) return { verdict: "inconclusive", reason: `k6 did not ${late} in time and was ended${first}` };
  if (code === null && signal === null) return { verdict: "inconclusive", reason: `k6 could not be started${first}` };
  if (code === null) return { verdict: "inconclusive", reason: `k6 was ended by ${signal}${first}` };
  const known = EXIT_CODES[code] ?? {
    verdict: "inconclusive" as const,
    meaning: "an error that has no code of its own",
  };
  return { verdict: known.verdict, reason: `k6 ended with code ${code}, ${known.meaning}${first}` };
};

/** The user's settings for k6's own outputs: `K6_OUT` and its variables; nothing where `K6_OUT` is not set. */
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

type Logged = { level?: string; msg?: string };

type K6Process = Pick<BoundedChild, "due" | "kill"> & {
  child: ChildProcess;
  exited: Promise<K6Exit>;
};

/** `environment` is all that k6 gets; it has a group of its own, so that a supervisor can end it whole. */
export const startK6 = (
  binary: string,
  args: readonly string[],
  environment: Record<string, string>,
  folder: string,
): K6Process => {
  const child = spawn(binary, args, {
    cwd: folder,
    env: {
      K6_NO_USAGE_REPORT: "true",
      K6_AUTO_EXTENSION_RESOLUTION: "false",
      HOME: folder,
      ...k6Outputs(process.env),
      ...environment,
      ...runMark(),
    },
    stdio: ["ignore", "ignore", "pipe"],
    detached: true,
  });
  const exit: K6Exit = { code: null, signal: null, errors: [], errorCount: 0, warnings: [] };
  const stderr = child.stderr as NonNullable<typeof child.stderr>;
  const hear = (line: string): void => {
    let level = "error";
    let message = line;
    if (line.trim() === "") return;
    try {
      const logged = JSON.parse(line) as Logged | null;
      if (typeof logged?.level === "string") level = logged.level;
      if (typeof logged?.msg === "string") message = logged.msg;
    } catch {}
    const said = redact(message.trim().split("\n").slice(0, 3).join(" "));
    if (level === "error" || level === "fatal" || level === "panic") {
      exit.errorCount += 1;
      if (exit.errors.length < KEPT) exit.errors.push(said);
    } else if (level === "warning" && exit.warnings.length < KEPT) exit.warnings.push(said);
  };
  readLines(stderr, hear);
  const bound = boundChild(child);
  const exited = bound.ended.then(({ code, signal, error, late }): K6Exit => {
    if (error !== null) exit.errors.unshift(error);
    return { ...exit, code, signal, late };
  });
  return { child, exited, due: bound.due, kill: bound.kill };
};

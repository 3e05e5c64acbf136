/** Runs the k6 binary in a clean environment, collects its log, and explains its exit codes. */

import { spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { boundChild } from "../../supervision/child.ts";
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
  const killed = signal === null ? "could not be started" : `was ended by ${signal}`;
  const how = late != null ? `did not ${late} in time and was ended` : (ended ?? killed);
  const verdict = late == null && FAILS.has(code) ? "fail" : "inconclusive";
  return { verdict, reason: `k6 ${how}${errors[0] === undefined ? "" : `: ${errors[0]}`}` };
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

type Logged = { level?: string; msg?: string };

/** Starts k6 in a process group of its own, with only `environment`, our settings and the user's outputs. */
export const startK6 = (
  binary: string,
  args: readonly string[],
  environment: Record<string, string>,
  folder: string,
) => {
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
  readLines(child.stderr as Readable, (line) => {
    if (line.trim() === "") return;
    let logged: Logged | null = null;
    try {
      logged = JSON.parse(line) as Logged | null;
    } catch {}
    const { level = "error", msg = line } = logged ?? {};
    const said = redact(`${msg}`.trim().split("\n").slice(0, 3).join(" "));
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

/**
 * A user's own k6 script, run as it is (`load --script FILE.ts -- <k6 arguments>`). It makes no history lines, since nobody
 * knows its calls: it is judged by the account that our k6 output wrote (src/native/account), and the figures of k6's
 * machine-readable summary (schema 1.0.0) are reported. k6 ends with code 0 for iterations that threw, were dropped or were
 * cut off, for scenarios that never began and for thresholds without a sample, so each is checked.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { maskSecrets } from "../../contract/credentials.ts";
import type { Measurement } from "../../history/run-document.ts";
import { boundChild } from "../../supervision/bounded-child.ts";
import { redactor } from "../../supervision/redaction.ts";
import type { Problem } from "../driver.ts";
import { exitProblem } from "./k6-process.ts";

type K6ScriptOptions = {
  binary: string;
  script: string;
  args: readonly string[];
  account?: string;
  environment?: Record<string, string>;
  onSpawn?(child: ChildProcess): void;
  onSaid?(line: string): void;
};

/** Outputs that the user names stay: k6 takes those of its arguments in place of those of the environment. */
const accounted = (args: readonly string[], account: string | undefined, outputs: string | undefined) => {
  if (account === undefined) return { args, outputs: {} };
  const own = `floodgate-account=${account}`;
  if (args.some((arg) => /^(-o|--out)/.test(arg))) return { args: ["--out", own, ...args], outputs: {} };
  return { args, outputs: { K6_OUT: [outputs, own].filter(Boolean).join(",") } };
};

export const runK6Script = (options: K6ScriptOptions): Promise<Problem[]> =>
  new Promise((resolve) => {
    const { binary, script, environment, onSpawn, onSaid } = options;
    const { args, outputs } = accounted(options.args, options.account, process.env.K6_OUT);
    const child = spawn(binary, ["run", ...args, script], {
      env: {
        ...process.env,
        K6_NO_USAGE_REPORT: "true",
        K6_AUTO_EXTENSION_RESOLUTION: "false",
        ...outputs,
        ...environment,
      },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    onSpawn?.(child);
    for (const stream of [child.stdout, child.stderr]) {
      const lines = redactor.lines((line) => onSaid?.(line));
      stream.on("data", lines.push).on("close", lines.end);
    }
    // Ends with the process itself: its children may hold the output open.
    void boundChild(child).ended.then(({ code, signal, error }) => {
      const errors = error === null ? [] : [error];
      const problem = exitProblem({ code, signal, errors, errorCount: errors.length, warnings: [] });
      resolve(problem === null ? [] : [problem]);
    });
  });

type Metric = { name: string; type: string; contains: string; values: Record<string, number> };

export type K6Summary = {
  metrics: readonly Metric[];
  kept: unknown;
};

export const readSummary = (text: string): K6Summary | null => {
  let parsed: { config?: Record<string, unknown>; results?: { metrics?: Metric[]; checks?: { metrics?: Metric[] } } };
  try {
    parsed = JSON.parse(text);
  } catch {
    return null;
  }
  const found = parsed.results?.metrics;
  if (!Array.isArray(found)) return null;
  const { script: _, ...config } = parsed.config ?? {};
  const metrics = [...found, ...(parsed.results?.checks?.metrics ?? [])];
  return { metrics, kept: { ...parsed, config } };
};

/** What of each metric is reported: k6's own names, with the field. */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  trend: ["med", "p90", "p95", "max"],
  rate: ["rate"],
  counter: ["count"],
};

const unitOf = ({ type, contains }: Metric): string => {
  if (contains === "time") return "ms";
  if (contains === "data") return "bytes";
  return type === "rate" ? "share" : "1";
};

/** `calls`: how many there were, for metrics of which k6 does not say how often it measured. */
export const measurementsOf = ({ metrics }: K6Summary, stage: string, calls: number): Measurement[] =>
  metrics.flatMap((metric) =>
    (FIELDS[metric.type] ?? []).flatMap((field) => {
      const value = metric.values[field];
      if (value === undefined) return [];
      const n = metric.values.total ?? metric.values.count ?? calls;
      return [{ name: `${metric.name}_${field}`, stage, value, unit: unitOf(metric), low: null, high: null, n }];
    }),
  );

export type ScriptAccount = {
  scenarios: {
    name: string;
    executor: string;
    graceful_stop: boolean;
    ended: number;
    threw: number;
    exception?: string;
    cut: number;
    dropped: number;
  }[];
  /** By HTTP status; `"0"`: no answer. */
  calls: { by_status: Record<string, number>; failed: number; streams: number; events: number };
  checks: { made: number; failed: number };
  thresholds: { metric: string; source: string; samples: number; keys: boolean; failed: boolean }[];
  troubles: string[];
};

export const readAccount = (text: string): ScriptAccount | null => {
  try {
    const account = JSON.parse(maskSecrets(text)) as ScriptAccount;
    return Array.isArray(account.scenarios) && Array.isArray(account.thresholds) ? account : null;
  } catch {
    return null;
  }
};

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** Tolerated share of unanswered calls where neither the script nor the target file states one. */
const UNANSWERED_SHARE = 0.01;

const counted = (n: number, what: string): string => `${n} ${what}${n === 1 ? "" : "s"}`;

/** No answer, or a gateway's answer for one that the API did not give (Cloudflare's 52x among them). */
const NOT_ANSWERED = /^(0|502|504|52\d|530)$/;

export const callsOf = ({ calls }: ScriptAccount): { made: number; unanswered: number } => {
  const byStatus = Object.entries(calls.by_status);
  return {
    made: sum(byStatus.map(([, n]) => n)),
    unanswered: sum(byStatus.flatMap(([status, n]) => (NOT_ANSWERED.test(status) ? [n] : []))),
  };
};

const unansweredIn = ({ calls }: ScriptAccount): string =>
  Object.entries(calls.by_status)
    .filter(([status]) => NOT_ANSWERED.test(status))
    .map(([status, n]) => `${n} x ${status === "0" ? "no answer" : status}`)
    .join(", ");

const firstLine = (text = ""): string => text.split("\n")[0] as string;

/** Executors that start iterations by a schedule; the others drop what they had no time for. */
const isByRate = (executor: string): boolean => executor.endsWith("arrival-rate");

const aboutIterations = ({ scenarios }: ScriptAccount, isWhole: boolean): string[] =>
  scenarios.flatMap(({ name, executor, graceful_stop, ended, threw, exception, cut, dropped }) => {
    const said: string[] = [];
    const all = ended + cut + dropped;
    if (dropped > 0) {
      const cure = isByRate(executor)
        ? "raise preAllocatedVUs and maxVUs until none is dropped, or ask for a lower rate"
        : "raise maxDuration, or ask for fewer iterations";
      said.push(`${dropped} of ${counted(all, "iteration")} of the scenario "${name}" were dropped: ${cure}`);
    }
    if (threw > 0) {
      said.push(`${threw} of ${counted(ended, "iteration")} of the scenario "${name}" threw: ${firstLine(exception)}`);
    }
    if (ended === 0) {
      said.push(
        `no iteration of the scenario "${name}" ${cut > 0 ? `ended, ${counted(cut, "iteration")} were cut off` : "took place"}`,
      );
    } else if (cut > 0 && graceful_stop && isWhole) {
      said.push(
        `${cut} of ${counted(all, "iteration")} of the scenario "${name}" had not ended when its gracefulStop was over, and were cut off`,
      );
    }
    return said;
  });

/** Always holds: users state it to get the figures of a submetric in the summary. */
const ALWAYS_HOLDS = /^\s*\S+\s*>=\s*0(\.0*)?\s*$/;
/** Without a sample a counter is zero, which an upper bound may accept. */
const BOUNDS_A_COUNT = /^\s*count\s*(<|<=|===?)\s*[\d.]+\s*$/;

const statedThresholds = ({ thresholds }: ScriptAccount): ScriptAccount["thresholds"] =>
  thresholds.filter(({ source }) => !ALWAYS_HOLDS.test(source));

const isEmpty = (
  { metric, source, samples, keys }: ScriptAccount["thresholds"][number],
  all: ScriptAccount["thresholds"],
): boolean => {
  if (samples > 0) return false;
  if (!BOUNDS_A_COUNT.test(source)) return true;
  // A tag that no sample of the metric has is misspelt; one that has other values counts nothing.
  const [base, tags] = metric.split("{");
  const hasOthers = all.some((other) => other.metric === base && other.samples > 0);
  return tags !== undefined && !keys && hasOthers;
};

const aboutThresholds = (account: ScriptAccount): string[] => {
  const empty = statedThresholds(account).filter((one) => !one.failed && isEmpty(one, account.thresholds));
  if (empty.length === 0) return [];
  const named = empty.map(({ metric, source }) => `${metric}: ${source}`).join(", ");
  return [
    `k6 lets a threshold without a sample pass, and ${counted(empty.length, "threshold")} had none (${named}): ` +
      "see that the script makes those calls, and that metric and tags are spelt as it sets them",
  ];
};

const aboutCalls = (account: ScriptAccount, tolerated: number): string[] => {
  const { calls, checks } = account;
  const { made, unanswered } = callsOf(account);
  if (made === 0) return ["the script made no call"];
  if (unanswered === made) return [`the API answered none of ${counted(made, "call")} (${unansweredIn(account)})`];
  const said: string[] = [];
  const thresholds = statedThresholds(account);
  const boundsFailures = thresholds.some(({ metric }) => metric.startsWith("http_req_failed"));
  if (calls.failed >= made) {
    said.push(
      `each of ${counted(made, "call")} failed; a script that is meant to be refused says so by http.setResponseCallback`,
    );
  } else if (unanswered > tolerated * made && !boundsFailures) {
    said.push(
      `the API did not answer ${unanswered} of ${counted(made, "call")} (${unansweredIn(account)}), and no threshold on http_req_failed says how many may be`,
    );
  } else if (thresholds.length === 0 && calls.failed > 0) {
    said.push(
      `${calls.failed} of ${counted(made, "call")} failed, and the script has no threshold that says how many may`,
    );
  }
  if (calls.streams > 0 && calls.events === 0) said.push(`none of ${counted(calls.streams, "stream")} had an event`);
  if (checks.made > 0 && checks.failed === checks.made) said.push(`each of ${counted(checks.made, "check")} failed`);
  else if (checks.failed > 0 && thresholds.length === 0) {
    said.push(
      `${checks.failed} of ${counted(checks.made, "check")} failed, and the script has no threshold that says how many may`,
    );
  }
  return said;
};

export const crossedIn = ({ thresholds }: ScriptAccount): string =>
  thresholds
    .filter(({ failed }) => failed)
    .map(({ metric, source }) => `${metric}: ${source}`)
    .join(", ");

/** Why the script's own verdict cannot be believed; empty where it can. `isWhole`: the test was not ended before its time. */
export const doubtsOf = (
  account: ScriptAccount,
  {
    isWhole = true,
    unansweredShare = UNANSWERED_SHARE,
  }: { isWhole?: boolean; unansweredShare?: number | undefined } = {},
): Problem[] =>
  [
    ...aboutIterations(account, isWhole),
    ...aboutCalls(account, unansweredShare),
    ...aboutThresholds(account),
    ...account.troubles.map((trouble) => `k6 logged an error: ${firstLine(trouble)}`),
  ].map((reason) => ({ verdict: "inconclusive", reason }));

export const inWords = (account: ScriptAccount): string => {
  const { made } = callsOf(account);
  const { failed } = account.calls;
  const stated = statedThresholds(account);
  const held =
    stated.length === 0
      ? "the script states no threshold, so only that its iterations ended and its calls were answered was judged"
      : `${counted(stated.length, "threshold")} held`;
  const ended = sum(account.scenarios.map((scenario) => scenario.ended));
  return `${counted(ended, "iteration")} ended, with ${counted(made, "call")}${failed > 0 ? `, ${failed} of them failed` : ""}; ${held}`;
};

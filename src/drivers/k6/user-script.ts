/**
 * Runs a user's own k6 script unchanged (`load --script FILE.ts -- <k6 arguments>`) and judges it by the account that
 * our k6 output writes (src/native/account), because its calls are unknown. k6 exits with code 0 even if iterations
 * threw, were dropped or cut off, scenarios never began, or thresholds had no sample, so each of these is checked.
 */
import type { ChildProcess } from "node:child_process";
import { maskSecrets } from "../../contract/credentials.ts";
import { counted } from "../../contract/lists.ts";
import { parseJson } from "../../contract/refusals.ts";
import { type OpenCode, openBy } from "../../history/reason-codes.ts";
import type { Measurement } from "../../history/run-document.ts";
import { UNANSWERED_SHARE } from "../../invariants/answered.ts";
import { boundChild, spawnChild } from "../../supervision/child.ts";
import { redactor } from "../../supervision/redaction.ts";
import { type Problem, register } from "../driver.ts";
import { exitProblem, K6_SETTINGS } from "./k6-process.ts";

export const runK6Script = async (options: {
  binary: string;
  script: string;
  args: readonly string[];
  account: string;
  environment?: Record<string, string>;
  onSpawn?(child: ChildProcess): void;
  onSaid?(line: string): void;
}): Promise<Problem[]> => {
  const { binary, script, args, environment, onSpawn, onSaid } = options;
  const account = `floodgate-account=${options.account}`;
  // Keeps the outputs that the user names: in k6, `--out` arguments replace `K6_OUT`.
  const isNamed = args.some((arg) => /^(-o|--out)/.test(arg));
  const outputs = isNamed ? {} : { K6_OUT: [process.env.K6_OUT, account].filter(Boolean).join(",") };
  const child = spawnChild(binary, ["run", ...(isNamed ? ["--out", account] : []), ...args, script], {
    env: { ...process.env, ...K6_SETTINGS, ...outputs, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  const bound = boundChild(child);
  for (const stream of [child.stdout, child.stderr]) {
    const lines = redactor.lines((line) => onSaid?.(line));
    stream.on("data", lines.push).on("close", lines.end);
  }
  await register(child, bound, onSpawn);
  // Waits for the process, not for the end of its output, which its children may hold open.
  const { code, signal, error } = await bound.ended;
  const errors = error === null ? [] : [error];
  const problem = exitProblem({ code, signal, errors, errorCount: errors.length, warnings: [] });
  return problem === null ? [] : [problem];
};

type Metric = { name: string; type: string; contains: string; values: Record<string, number> };

type K6Summary = { metrics: readonly Metric[]; kept: unknown };

export const readSummary = (text: string): K6Summary | null => {
  try {
    const { config, ...parsed } = JSON.parse(text);
    const { metrics, checks } = parsed.results;
    if (!Array.isArray(metrics)) return null;
    const { script: _, ...kept } = config ?? {};
    return { metrics: [...metrics, ...(checks?.metrics ?? [])], kept: { ...parsed, config: kept } };
  } catch {
    return null;
  }
};

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

/** `calls`: the sample count of metrics for which k6 does not state one. */
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
  scenarios: ({ name: string; executor: string; graceful_stop: boolean; exception?: string } & Record<
    "ended" | "threw" | "cut" | "dropped",
    number
  >)[];
  /** `by_status`: calls by HTTP status; `"0"`: no answer. */
  calls: { by_status: Record<string, number>; failed: number; streams: number; events: number };
  checks: { made: number; failed: number };
  thresholds: { metric: string; source: string; samples: number; keys: boolean; failed: boolean }[];
  troubles: string[];
};

export const readAccount = (text: string): ScriptAccount | null => {
  const account = parseJson(maskSecrets(text)) as ScriptAccount | null | undefined;
  return Array.isArray(account?.scenarios) && Array.isArray(account.thresholds) ? account : null;
};

/** No answer (0), or a gateway's answer in place of the API's (Cloudflare's 52x and 530 among them). */
const NOT_ANSWERED = /^(0|502|504|52\d|530)$/;

/** `named`: the calls without an answer by status, in words. */
export const callsOf = ({ calls }: ScriptAccount): { made: number; unanswered: number; named: string } => {
  const byStatus = Object.entries(calls.by_status);
  const silent = byStatus.filter(([status]) => NOT_ANSWERED.test(status));
  const sum = (of: typeof byStatus): number => of.reduce((total, [, n]) => total + n, 0);
  const named = silent.map(([status, n]) => `${n} x ${status === "0" ? "no answer" : status}`).join(", ");
  return { made: sum(byStatus), unanswered: sum(silent), named };
};

const firstLine = (text = ""): string => text.split("\n")[0] as string;

const saying = (...rows: readonly (readonly [isSo: boolean, sentence: string])[]): string[] =>
  rows.flatMap(([isSo, sentence]) => (isSo ? [sentence] : []));

const aboutIterations = ({ scenarios }: ScriptAccount, isWhole: boolean): string[] =>
  scenarios.flatMap(({ name, executor, graceful_stop, ended, threw, exception, cut, dropped }) => {
    const of = (n: number): string => `of ${counted(n, "iteration")} of the scenario "${name}"`;
    const all = of(ended + cut + dropped);
    // Arrival-rate executors drop iterations for which no VU is free, others those that maxDuration leaves no time for.
    const cure = executor.endsWith("arrival-rate")
      ? "raise preAllocatedVUs and maxVUs until none is dropped, or ask for a lower rate"
      : "raise maxDuration, or ask for fewer iterations";
    const none = cut > 0 ? `ended, ${counted(cut, "iteration")} were cut off` : "took place";
    const isCut = ended > 0 && cut > 0 && graceful_stop && isWhole;
    return saying(
      [dropped > 0, `${dropped} ${all} were dropped: ${cure}`],
      [threw > 0, `${threw} ${of(ended)} threw: ${firstLine(exception)}`],
      [ended === 0, `no iteration of the scenario "${name}" ${none}`],
      [isCut, `${cut} ${all} had not ended when its gracefulStop was over, and were cut off`],
    );
  });

/** A threshold that always holds: users state it to get a submetric's figures in the summary. */
const ALWAYS_HOLDS = /^\s*\S+\s*>=\s*0(\.0*)?\s*$/;
/** A bound on a count, which may rightly hold without a sample, because the counter is then zero. */
const BOUNDS_A_COUNT = /^\s*count\s*(<|<=|===?)\s*[\d.]+\s*$/;

const statedThresholds = ({ thresholds }: ScriptAccount): ScriptAccount["thresholds"] =>
  thresholds.filter(({ source }) => !ALWAYS_HOLDS.test(source));

const isEmpty = (
  { metric, source, samples, keys }: ScriptAccount["thresholds"][number],
  all: ScriptAccount["thresholds"],
): boolean => {
  if (samples > 0) return false;
  if (!BOUNDS_A_COUNT.test(source)) return true;
  // A tag key that no sample of the metric has is misspelt; with a known key, zero samples may be right.
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

const aboutCalls = (account: ScriptAccount, tolerated = UNANSWERED_SHARE): string[] => {
  const { calls, checks } = account;
  const { made, unanswered, named } = callsOf(account);
  if (made === 0) return ["the script made no call"];
  const calledOf = `of ${counted(made, "call")}`;
  if (unanswered === made) return [`the API answered none ${calledOf} (${named})`];
  const thresholds = statedThresholds(account);
  const boundsFailures = thresholds.some(({ metric }) => metric.startsWith("http_req_failed"));
  const isAllFailed = calls.failed >= made;
  const isSilent = !isAllFailed && unanswered > tolerated * made && !boundsFailures;
  const isUnbounded = thresholds.length === 0;
  const noThreshold = "and the script has no threshold that says how many may";
  const [areChecks, failedChecks] = [counted(checks.made, "check"), checks.failed];
  const isChecked = checks.made > 0 && failedChecks === checks.made;
  return saying(
    [isAllFailed, `each ${calledOf} failed; a script that is meant to be refused says so by http.setResponseCallback`],
    [
      isSilent,
      `the API did not answer ${unanswered} ${calledOf} (${named}), and no threshold on http_req_failed says how many may be`,
    ],
    [
      !isAllFailed && !isSilent && isUnbounded && calls.failed > 0,
      `${calls.failed} ${calledOf} failed, ${noThreshold}`,
    ],
    [calls.streams > 0 && calls.events === 0, `none of ${counted(calls.streams, "stream")} had an event`],
    [isChecked, `each of ${areChecks} failed`],
    [!isChecked && failedChecks > 0 && isUnbounded, `${failedChecks} of ${areChecks} failed, ${noThreshold}`],
  );
};

export const crossedIn = ({ thresholds }: ScriptAccount): string =>
  thresholds
    .filter(({ failed }) => failed)
    .map(({ metric, source }) => `${metric}: ${source}`)
    .join(", ");

/** Why the script's own verdict cannot be relied on; empty if it can. `isWhole`: the test was not ended early. */
export const doubtsOf = (
  account: ScriptAccount,
  { isWhole = true, unansweredShare }: { isWhole?: boolean; unansweredShare?: number | undefined } = {},
): Problem[] => {
  const by = (code: OpenCode, reasons: readonly string[]) => reasons.map((reason) => ({ ...openBy(code), reason }));
  const isLimited = account.scenarios.some(({ dropped }) => dropped > 0);
  const troubles = account.troubles.map((trouble) => `k6 logged an error: ${firstLine(trouble)}`);
  return [
    ...by(isLimited ? "generator-was-the-limit" : "cut-off", aboutIterations(account, isWhole)),
    ...by("unclear-answer", aboutCalls(account, unansweredShare)),
    ...by("too-few-calls", aboutThresholds(account)),
    ...by("program-failed", troubles),
  ];
};

export const inWords = (account: ScriptAccount): string => {
  const { made } = callsOf(account);
  const { failed } = account.calls;
  const stated = statedThresholds(account);
  const held =
    stated.length === 0
      ? "the script states no threshold, so only that its iterations ended and its calls were answered was judged"
      : `${counted(stated.length, "threshold")} held`;
  const ended = account.scenarios.reduce((total, scenario) => total + scenario.ended, 0);
  return `${counted(ended, "iteration")} ended, with ${counted(made, "call")}${failed > 0 ? `, ${failed} of them failed` : ""}; ${held}`;
};

/**
 * Runs a user's own k6 script as it is (`load --script FILE.ts -- <k6 arguments>`), and reads the figures of k6's
 * machine-readable summary (schema 1.0.0). It makes no history lines, since nobody knows its calls.
 */

import { type ChildProcess, spawn } from "node:child_process";
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

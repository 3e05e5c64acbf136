/**
 * k6's machine-readable summary (schema 1.0.0, `--new-machine-readable-summary`) of a script that is not ours: how many
 * requests it made, and the figures of the metrics that every k6 script has.
 */
import type { Measurement } from "../../history/run-document.ts";

type Metric = { name: string; type: string; contains: string; values: Record<string, number> };

export type K6Summary = {
  requests: number;
  /** Of them those that k6 counts as failed: status 400 and above where the script does not say otherwise. */
  failed: number;
  metrics: readonly Metric[];
  /** The summary without the script's source, which k6 puts into it. */
  kept: unknown;
};

const REQUESTS = ["http_reqs", "sse_requests"];

/** `null` for what is no summary of that kind. */
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
  const value = (name: string, field: string): number => metrics.find((one) => one.name === name)?.values[field] ?? 0;
  return {
    requests: REQUESTS.reduce((sum, name) => sum + value(name, "count"), 0),
    failed: value("http_req_failed", "matches"),
    metrics,
    kept: { ...parsed, config },
  };
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

export const measurementsOf = ({ metrics, requests }: K6Summary, stage: string): Measurement[] =>
  metrics.flatMap((metric) =>
    (FIELDS[metric.type] ?? []).flatMap((field) => {
      const value = metric.values[field];
      if (value === undefined) return [];
      const n = metric.values.total ?? metric.values.count ?? requests;
      return [{ name: `${metric.name}_${field}`, stage, value, unit: unitOf(metric), low: null, high: null, n }];
    }),
  );

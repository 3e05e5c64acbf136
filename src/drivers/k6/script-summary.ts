/**
 * k6's machine-readable summary (schema 1.0.0, `--new-machine-readable-summary`) of a script that is not ours: the figures of
 * its metrics.
 */
import type { Measurement } from "../../history/run-document.ts";

type Metric = { name: string; type: string; contains: string; values: Record<string, number> };

export type K6Summary = {
  metrics: readonly Metric[];
  /** The summary without the script's source, which k6 puts into it. */
  kept: unknown;
};

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

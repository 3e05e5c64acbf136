/** A baseline: figures of recorded runs, kept in the repository with the reason why they are what is compared with. */
import type { RunFigures } from "./recorded-comparison.ts";

export const BASELINE_SCHEMA = "floodgate/baseline@1";

export type Baseline = {
  schema: typeof BASELINE_SCHEMA;
  /** Why these runs, in the words of whoever saved them. */
  reason: string;
  saved_at: string;
  commit: string | null;
  runs: RunFigures[];
};

/** What is wrong with a value that should be a baseline, or `null`. */
export const notABaseline = (value: unknown): string | null => {
  if (typeof value !== "object" || value === null) return "it is no JSON object";
  const { schema, runs } = value as Partial<Baseline>;
  if (schema !== BASELINE_SCHEMA) return `its schema is ${JSON.stringify(schema)}, expected "${BASELINE_SCHEMA}"`;
  return Array.isArray(runs) && runs.length > 0 ? null : "it has no runs";
};

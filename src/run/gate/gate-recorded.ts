/** `gate` on recorded runs and baseline files; sends nothing. */

import { existsSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  BASELINE_SCHEMA,
  type Baseline,
  compareRecorded,
  figuresOf,
  notABaseline,
  type RecordedComparison,
  type RunFigures,
} from "../../gate/recorded-comparison.ts";
import type { RunDocument } from "../../history/run-document.ts";
import { REPOSITORY } from "../../supervision/repository.ts";
import { makeFolders } from "../../supervision/user-file.ts";
import { atPlace, UsageError } from "../exit-codes.ts";
import { recordedJson } from "../judge-again.ts";
import { commitOf } from "../run-reports.ts";

/** Reads the figures of a run. Throws `UsageError`, also for a run that was stopped or killed. */
export const readFigures = (path: string): RunFigures => {
  const file = path.endsWith(".json") ? path : join(path, "run.json");
  const document = recordedJson(file) as RunDocument;
  if (document?.schema !== "floodgate/run@1")
    throw new UsageError(`${file} is no run of this schema: ${String(document?.schema)}`);
  const cut = document.claims.find(({ id }) => id === "run/completed");
  if (cut !== undefined) throw new UsageError(`${path} did not come to its end: ${cut.reason}; name a whole run`);
  return figuresOf(document);
};

export const compareRuns = (before: readonly string[], after: readonly string[]): RecordedComparison =>
  compareRecorded(before.map(readFigures), after.map(readFigures));

/** Compares runs with a baseline; inconclusive without a readable baseline. */
export const compareWithBaseline = (file: string, runs: readonly string[]): RecordedComparison => {
  const after = runs.map(readFigures);
  const missing = (reason: string): RecordedComparison => {
    return { verdict: "inconclusive", reasons: [reason], broken: [], rows: [] };
  };
  if (!existsSync(file))
    return missing(`there is no baseline ${file}; --save-baseline ${file} --reason TEXT writes one`);
  const value = recordedJson(file);
  const wrong = notABaseline(value);
  return wrong === null
    ? compareRecorded((value as Baseline).runs, after)
    : missing(`${file} is no baseline: ${wrong}`);
};

export const saveBaseline = async (file: string, runs: readonly string[], reason: string): Promise<Baseline> => {
  const baseline: Baseline = {
    schema: BASELINE_SCHEMA,
    reason,
    saved_at: new Date().toISOString(),
    commit: await commitOf(REPOSITORY),
    runs: runs.map(readFigures),
  };
  atPlace(`--save-baseline ${file}`, () => {
    makeFolders(dirname(file));
    const draft = `${file}.${process.pid}.draft`;
    try {
      writeFileSync(draft, `${JSON.stringify(baseline, null, 2)}\n`);
      renameSync(draft, file);
    } catch (error) {
      rmSync(draft, { force: true });
      throw error;
    }
  });
  return baseline;
};

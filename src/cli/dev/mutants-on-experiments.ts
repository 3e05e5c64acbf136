/** `floodgate dev mutants --experiments`: mutants of the fault kind before the real experiments, each in a run of its own. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RunDocument } from "../../history/run-document.ts";
import { EXIT, UsageError } from "../../run/exit-codes.ts";
import { runChaos } from "../../run/experiments/run-chaos.ts";
import {
  EXPERIMENT_TRIALS,
  type ExperimentJudged,
  type ExperimentTrial,
  experimentsOf,
  healthyFaults,
  judgeTrial,
  trialsTable,
} from "../../trials/experiment-trials.ts";
import { narrator } from "../printing/narrator.ts";
import { printResult } from "../printing/output.ts";

/** On a busy machine a trial may be undecided; what was condemned or acquitted stands. */
const ATTEMPTS = 2;

type Options = { limiter: "sqlite" | "redis"; quiet: boolean; json: boolean };

const played = async (
  names: readonly string[],
  mutant: string | null,
  reports: string,
  { limiter, quiet }: Options,
): Promise<RunDocument> => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  const title = `chaos ${names.join(" ")}, ${mutant ?? "the healthy platform"}`;
  const say = narrator({ quiet, title, seed });
  const serve = mutant === null ? {} : { serve: ["dev", "serve", "--mutant", mutant] };
  const replay = `npx floodgate dev mutants --experiments ${mutant ?? ""}`.trim();
  const wish = { names, limiter, short: false, owned: [], seed, reports, replay, events: say, ...serve };
  const { document } = await runChaos(wish).finally(say.end);
  return document;
};

const tried = async (trial: ExperimentTrial, reports: string, options: Options): Promise<ExperimentJudged> => {
  for (let attempt = 1; ; attempt += 1) {
    const judged = judgeTrial(trial, await played([trial.passes, trial.on], trial.mutant, reports, options));
    if (judged.verdict !== "undecided" || attempt === ATTEMPTS) return judged;
  }
};

const exitCodeOf = (judged: readonly ExperimentJudged[], faults: readonly string[]): number => {
  if (faults.length > 0) return EXIT.fail;
  if (judged.every(({ verdict }) => verdict === "killed")) return EXIT.pass;
  return judged.every(({ verdict }) => verdict === "killed" || verdict === "undecided") ? EXIT.inconclusive : EXIT.fail;
};

/** The healthy platform first: a judge that condemns it says nothing about a mutant. */
export const tryOnExperiments = async (names: readonly string[], options: Options): Promise<void> => {
  const unknown = names.filter((name) => !EXPERIMENT_TRIALS.some(({ mutant }) => mutant === name));
  if (unknown.length > 0) {
    const there = EXPERIMENT_TRIALS.map(({ mutant }) => mutant).join(", ");
    throw new UsageError(`no experiment is made to kill ${unknown.join(", ")}; expected some of ${there}`);
  }
  const trials = EXPERIMENT_TRIALS.filter(({ mutant }) => names.length === 0 || names.includes(mutant));
  const reports = mkdtempSync(join(tmpdir(), "floodgate-mutants-"));
  try {
    const faults = healthyFaults(await played(experimentsOf(trials), null, reports, options));
    const judged: ExperimentJudged[] = [];
    for (const trial of trials) judged.push(await tried(trial, reports, options));
    process.exitCode = exitCodeOf(judged, faults);
    if (options.json) {
      printResult(`${JSON.stringify({ exit_code: process.exitCode, healthy: faults, trials: judged }, null, 2)}\n`);
      return;
    }
    printResult(trialsTable(judged));
    for (const { mutant, told } of judged) for (const line of told) printResult(`${mutant}: ${line}`);
    const healthy = faults.length === 0 ? "passes every must of these experiments" : "is condemned:";
    printResult(`the healthy platform ${healthy}\n${faults.map((line) => `  ${line}\n`).join("")}`);
  } finally {
    rmSync(reports, { recursive: true, force: true, maxRetries: 3 });
  }
};

/** `floodgate dev mutants`: who must catch each mutant, and who did. A survivor, another's catch and a false positive fail it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { MUTANTS } from "../../mutants/catalogue.ts";
import { type Mutant, nobody } from "../../mutants/mutant.ts";
import { EXIT, EXIT_OF_SIGNAL, UsageError } from "../../run/exit-codes.ts";
import { runChaos } from "../../run/experiments/run-chaos.ts";
import { listenForStop } from "../../supervision/stop-signals.ts";
import type { ExperimentJudged, ExperimentTrial } from "../../trials/experiment-trials.ts";
import {
  EXPERIMENT_TRIALS,
  experimentsOf,
  healthyFaults,
  judgeTrial,
  trialsTable,
} from "../../trials/experiment-trials.ts";
import { tryLaws } from "../../trials/laws.ts";
import { MINI_STAGE_NAMES } from "../../trials/stages.ts";
import { matrixOf, mutantsTable } from "../../trials/table.ts";
import { COLUMNS, type Column, isRight, isWrong, planTrials, type Trial, tryAll } from "../../trials/trials.ts";
import { LIMITER, type Limiter } from "../judging-command.ts";
import { called, withOptions } from "../options/checks.ts";
import { narrator } from "../printing/narrator.ts";
import { printJson, printNote, printResult } from "../printing/output.ts";

type Options = Partial<Record<"everywhere" | "list" | "json" | "quiet" | "experiments", boolean>> & {
  stage?: string[];
  columns?: Column[];
  limiter: Limiter;
};

const requireKnown = (none: string, words: readonly string[], known: readonly string[], some: string): void => {
  const unknown = words.filter((word) => !known.includes(word));
  if (unknown.length === 0) return;
  throw new UsageError(`${none} ${unknown.join(", ")}; expected ${some} of ${known.join(", ")}`);
};

const chosen = (names: readonly string[], { stage, columns = [] }: Options): Mutant[] => {
  for (const name of names) called("mutant", name, MUTANTS, "--list shows them all");
  requireKnown("no stage is called", stage ?? [], MINI_STAGE_NAMES, "one");
  requireKnown("no column is called", columns, COLUMNS, "some");
  return MUTANTS.filter(
    (mutant) => (names.length === 0 || names.includes(mutant.name)) && (stage?.includes(mutant.stage) ?? true),
  );
};

const summaryOf = (mutants: readonly Mutant[], trials: readonly Trial[], tookS: number): string => {
  const count = (...verdicts: Trial["verdict"][]): number =>
    trials.filter(({ verdict }) => verdicts.includes(verdict)).length;
  const undecided = trials.filter(({ verdict, own }) => verdict === "undecided" && own).length;
  const notTried = mutants.filter(({ name }) => !trials.some((trial) => trial.mutant === name && trial.own)).length;
  return [
    `${count("killed")} of ${mutants.length} mutants killed by everybody who must`,
    `${count("survived", "wrong-judge")} missed`,
    `${undecided} undecided where it counts`,
    `${notTried} not tried where they must be caught`,
    `${count("acquitted")} acquittals and ${count("false-positive")} false positives of the healthy platform`,
    `${Math.round(tookS)} s`,
  ].join("; ");
};

const tryMutants = async (mutants: readonly Mutant[], options: Options): Promise<void> => {
  const { quiet = false, json, everywhere = false } = options;
  const columns = COLUMNS.filter((column) => options.columns?.includes(column) ?? true);
  const attempts = planTrials(mutants, { columns, everywhere });
  const lawful = columns.includes("properties") ? [nobody.name, ...mutants.map(({ name }) => name)] : [];
  const say = narrator({ quiet, title: "dev mutants", seed: 0 });
  say.result(`${mutants.length} mutants and the healthy platform, judged by ${columns.join(", ")}`);
  const underLaws = new Set<string>();
  let tried = 0;
  const onTrial = (trial: Trial): void => {
    // All laws that try one mutant count as one trial.
    if (trial.column === "properties") underLaws.add(trial.mutant);
    else tried += 1;
    const named = `${trial.mutant} on ${trial.stage}`;
    if (!isRight(trial)) say.result(`  ${trial.verdict}: ${named}\n    ${trial.reasons.join("\n    ")}\n`);
    const of = attempts.length + lawful.length;
    say.progress(`${tried + underLaws.size} trials of about ${of} done, last ${named}`);
  };
  const stop = listenForStop((signal) => {
    say.end();
    // Drivers end with their stdin, laws with this process.
    process.exit(EXIT_OF_SIGNAL[signal] ?? EXIT.inconclusive);
  });
  try {
    const laws = lawful.length === 0 ? [] : await tryLaws({ mutants: lawful, onTrial });
    const trials = [...laws, ...(await tryAll(attempts, onTrial))];
    process.exitCode = trials.some(isWrong) ? EXIT.fail : trials.every(isRight) ? EXIT.pass : EXIT.inconclusive;
    say.end();
    const rows = matrixOf(mutants, trials);
    if (json === true) {
      const shown = rows.map(({ mutant, must, cells }) => ({ mutant, must, cells }));
      printJson({ exit_code: process.exitCode, columns, rows: shown, trials });
    } else printResult(mutantsTable(rows, columns));
    if (!quiet) printNote(summaryOf(mutants, trials, performance.now() / 1000));
  } finally {
    say.end();
    stop.release();
  }
};

/** A trial that a busy machine leaves undecided is repeated. */
const ATTEMPTS = 2;

const played = async (names: readonly string[], mutant: string | null, reports: string, options: Options) => {
  const { limiter, quiet = false } = options;
  const seed = Math.floor(Math.random() * 2 ** 31);
  const say = narrator({ quiet, title: `chaos ${names.join(" ")}, ${mutant ?? "the healthy platform"}`, seed });
  const serve = mutant === null ? undefined : ["dev", "serve", "--mutant", mutant];
  const replay = `npx floodgate dev mutants --experiments ${mutant ?? ""}`.trim();
  const run = { names, limiter, short: false, owned: [], seed, reports, replay, events: say, serve };
  return (await runChaos(run).finally(say.end)).document;
};

const tried = async (trial: ExperimentTrial, ...how: [reports: string, Options]): Promise<ExperimentJudged> => {
  for (let attempt = 1; ; attempt += 1) {
    const judged = judgeTrial(trial, await played([trial.passes, trial.on], trial.mutant, ...how));
    if (judged.verdict !== "undecided" || attempt === ATTEMPTS) return judged;
  }
};

/** Tries fault mutants on real experiments. The healthy platform goes first: a judge that fails it proves nothing about a mutant. */
const tryOnExperiments = async (names: readonly string[], options: Options): Promise<void> => {
  const known = EXPERIMENT_TRIALS.map(({ mutant }) => mutant);
  requireKnown("no experiment is made to kill", names, known, "some");
  const trials = EXPERIMENT_TRIALS.filter(({ mutant }) => names.length === 0 || names.includes(mutant));
  const reports = mkdtempSync(join(tmpdir(), "floodgate-mutants-"));
  try {
    const faults = healthyFaults(await played(experimentsOf(trials), null, reports, options));
    const judged: ExperimentJudged[] = [];
    for (const trial of trials) judged.push(await tried(trial, reports, options));
    const open = judged.filter(({ verdict }) => verdict !== "killed");
    const isFailed = faults.length > 0 || open.some(({ verdict }) => verdict !== "undecided");
    process.exitCode = isFailed ? EXIT.fail : open.length === 0 ? EXIT.pass : EXIT.inconclusive;
    if (options.json === true) {
      printJson({ exit_code: process.exitCode, healthy: faults, trials: judged });
      return;
    }
    printResult(trialsTable(judged));
    for (const { mutant, told } of judged) for (const line of told) printResult(`${mutant}: ${line}`);
    const healthy = faults.length === 0 ? "passes every must of these experiments" : "is condemned:";
    printResult([`the healthy platform ${healthy}`, ...faults.map((line) => `  ${line}`)].join("\n"));
  } finally {
    rmSync(reports, { recursive: true, force: true, maxRetries: 3 });
  }
};

export const mutantsCommand = (): Command =>
  withOptions(new Command("mutants"), [LIMITER])
    .description("who must catch each mutant, and who did: by properties, verify, load, chaos, gate")
    .argument("[name...]", "only these mutants")
    .option("--stage <name...>", "only mutants that must be caught on these small stages")
    .option("--columns <name...>", `only these judges: ${COLUMNS.join(", ")}`)
    .option("--everywhere", "each mutant on every small stage, to see who else would have caught it (an hour or so)")
    .option("--experiments", "those of the fault kind before the real experiments of chaos (ten minutes or so)")
    .option("--list", "say what each mutant does and who must catch it, and end")
    .option("--json", "print matrix and trials as JSON on stdout")
    .option("--quiet", "no progress")
    .action(async (names: string[], options: Options) => {
      if (options.experiments === true) return tryOnExperiments(names, options);
      const mutants = chosen(names, options);
      if (options.list !== true) return tryMutants(mutants, options);
      for (const { name, stage, kills, harm } of mutants) {
        printResult(`${name}  on ${stage}, by ${kills.join(" and ")}\n    ${harm}`);
      }
    });

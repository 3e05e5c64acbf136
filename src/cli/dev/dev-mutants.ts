/**
 * `floodgate dev mutants`: who must catch each mutant and who did. A survivor, a false positive, or a mutant that only somebody
 * else condemned fails it, because a judge that has never condemned is not to be believed when it acquits.
 */

import { Command } from "commander";
import { noSuch } from "../../contract/nearest.ts";
import { MUTANTS } from "../../mutants/catalogue.ts";
import { type Mutant, nobody } from "../../mutants/mutant.ts";
import { EXIT, EXIT_OF_SIGNAL, UsageError } from "../../run/exit-codes.ts";
import { listenForStop } from "../../supervision/stop-signals.ts";
import { COLUMNS, type Column } from "../../trials/columns.ts";
import { tryLaws } from "../../trials/laws.ts";
import { matrixOf } from "../../trials/matrix.ts";
import { planTrials, tryAll } from "../../trials/plan.ts";
import { MINI_STAGE_NAMES } from "../../trials/stages.ts";
import { mutantsTable } from "../../trials/table.ts";
import { isRight, isWrong, type Trial } from "../../trials/trials.ts";
import { limiterOption } from "../judging-command.ts";
import { drawAgain, isTerminal, printJson, printNote, printResult } from "../printing/output.ts";
import { tryOnExperiments } from "./mutants-on-experiments.ts";

type MutantsOptions = {
  stage?: string[];
  columns?: string[];
  everywhere?: boolean;
  list?: boolean;
  json?: boolean;
  quiet?: boolean;
  experiments?: boolean;
  limiter: "sqlite" | "redis";
};

const EVERY_MS = 30_000;

const chosen = (names: readonly string[], stages: readonly string[] | undefined): Mutant[] => {
  const unknown = names.filter((name) => !MUTANTS.some((mutant) => mutant.name === name));
  const noStage = (stages ?? []).filter((stage) => !(MINI_STAGE_NAMES as string[]).includes(stage));
  if (unknown[0] !== undefined) {
    const names = MUTANTS.map(({ name }) => name);
    throw new UsageError(noSuch("mutant", unknown[0], names, "--list shows them all"));
  }
  if (noStage.length > 0) {
    throw new UsageError(`no stage is called ${noStage.join(", ")}; expected one of ${MINI_STAGE_NAMES.join(", ")}`);
  }
  return MUTANTS.filter(
    ({ name, stage }) =>
      (names.length === 0 || names.includes(name)) && (stages === undefined || stages.includes(stage)),
  );
};

const columnsOf = (wanted: readonly string[] = COLUMNS): Column[] => {
  const unknown = wanted.filter((name) => !(COLUMNS as readonly string[]).includes(name));
  if (unknown.length === 0) return COLUMNS.filter((column) => wanted.includes(column));
  throw new UsageError(`no column is called ${unknown.join(", ")}; expected some of ${COLUMNS.join(", ")}`);
};

type Narration = { onTrial(trial: Trial): void; end(): void };

/** On a terminal a line that is written over; elsewhere a line every 30 s. What is wrong is reported at once. */
const narrate = (of: number, quiet: boolean): Narration => {
  const onTerminal = isTerminal();
  let done = 0;
  let now = "";
  const lawful = new Set<string>();
  const wipe = (): void => {
    if (onTerminal && done > 0 && !quiet) drawAgain(1, []);
  };
  const alive = (): void => {
    if (!quiet) printNote(`  … ${done} trials of about ${of} done${now}`);
  };
  const timer = setInterval(() => {
    if (!onTerminal) alive();
  }, EVERY_MS);
  timer.unref();
  return {
    onTrial: (trial) => {
      wipe();
      // A mutant is tried by many laws, which count once.
      if (trial.column !== "properties" || !lawful.has(trial.mutant)) done += 1;
      if (trial.column === "properties") lawful.add(trial.mutant);
      now = `, last ${trial.mutant} on ${trial.stage}`;
      if (!isRight(trial) && !quiet) {
        printNote(`  ${trial.verdict}: ${trial.mutant} on ${trial.stage}\n    ${trial.reasons.join("\n    ")}\n`);
      }
      if (onTerminal && !quiet) drawAgain(0, [`  … ${done} of about ${of}${now}`]);
    },
    end: () => {
      clearInterval(timer);
      wipe();
    },
  };
};

const exitCodeOf = (trials: readonly Trial[]): number => {
  if (trials.some(isWrong)) return EXIT.fail;
  return trials.every(isRight) ? EXIT.pass : EXIT.inconclusive;
};

const listMutants = (mutants: readonly Mutant[]): void => {
  for (const { name, stage, kills, harm } of mutants) {
    printResult(`${name}  on ${stage}, by ${kills.join(" and ")}\n    ${harm}`);
  }
};

const summaryOf = (mutants: readonly Mutant[], trials: readonly Trial[], tookS: number): string => {
  const count = (fits: (trial: Trial) => boolean): number => trials.filter(fits).length;
  const killed = count(({ verdict }) => verdict === "killed");
  const notTried = mutants.filter(({ name }) => !trials.some((trial) => trial.mutant === name && trial.own)).length;
  return [
    `${killed} of ${mutants.length} mutants killed by everybody who must`,
    `${count(({ verdict }) => verdict === "survived" || verdict === "wrong-judge")} missed`,
    `${count((trial) => trial.verdict === "undecided" && trial.own)} undecided where it counts`,
    `${notTried} not tried where they must be caught`,
    `${count(({ verdict }) => verdict === "acquitted")} acquittals and ${count(
      ({ verdict }) => verdict === "false-positive",
    )} false positives of the healthy platform`,
    `${Math.round(tookS)} s`,
  ].join("; ");
};

const run = async (names: string[], options: MutantsOptions): Promise<void> => {
  if (options.experiments === true) {
    const { limiter, quiet = false, json = false } = options;
    return tryOnExperiments(names, { limiter, quiet, json });
  }
  const mutants = chosen(names, options.stage);
  const columns = columnsOf(options.columns);
  if (options.list === true) return listMutants(mutants);
  const beganMs = performance.now();
  const attempts = planTrials(mutants, { columns, everywhere: options.everywhere === true });
  const lawful = columns.includes("properties") ? [nobody.name, ...mutants.map(({ name }) => name)] : [];
  const quiet = options.quiet === true;
  const { onTrial, end } = narrate(attempts.length + lawful.length, quiet);
  if (!quiet) {
    printNote(`${mutants.length} mutants and the healthy platform, judged by ${columns.join(", ")}`);
  }
  const stop = listenForStop((signal) => {
    end();
    // Children end with us: the drivers when their stdin does, the laws by `exit`.
    process.exit(EXIT_OF_SIGNAL[signal] ?? EXIT.inconclusive);
  });
  try {
    const laws = lawful.length === 0 ? [] : await tryLaws({ mutants: lawful, onTrial });
    const trials = [...laws, ...(await tryAll(attempts, onTrial))];
    process.exitCode = exitCodeOf(trials);
    end();
    const rows = matrixOf(mutants, trials);
    if (options.json === true) {
      const shown = rows.map(({ mutant, must, cells }) => ({ mutant, must, cells }));
      const document = { exit_code: process.exitCode, columns, rows: shown, trials };
      printJson(document);
    } else printResult(mutantsTable(rows, columns));
    if (!quiet) printNote(summaryOf(mutants, trials, (performance.now() - beganMs) / 1000));
  } finally {
    end();
    stop.release();
  }
};

export const mutantsCommand = (): Command =>
  new Command("mutants")
    .description("who must catch each mutant, and who did: by properties, verify, load, chaos, gate")
    .argument("[name...]", "only these mutants")
    .option("--stage <name...>", "only mutants that must be caught on these small stages")
    .option("--columns <name...>", `only these judges: ${COLUMNS.join(", ")}`)
    .option("--everywhere", "each mutant on every small stage, to see who else would have caught it (an hour or so)")
    .option("--experiments", "those of the fault kind before the real experiments of chaos (ten minutes or so)")
    .addOption(limiterOption())
    .option("--list", "say what each mutant does and who must catch it, and end")
    .option("--json", "print matrix and trials as JSON on stdout")
    .option("--quiet", "no progress")
    .action(run);

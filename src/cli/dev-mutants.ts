/**
 * `floodgate dev mutants`: who must catch each mutant and who did. A survivor or a false positive fails it, because a judge
 * that has never condemned is not to be believed when it acquits.
 */
import { Command } from "commander";
import { MUTANTS } from "../mutants/catalogue.ts";
import { type Mutant, nobody } from "../mutants/mutant.ts";
import { MINI_STAGE_NAMES } from "../run/mutant-stages.ts";
import { type Attempt, isRight, planTrials, stageOf, type Trial, tryAll } from "../run/mutant-trials.ts";
import { CommandError, EXIT } from "./exit-codes.ts";

type MutantsOptions = { stage?: string[]; everywhere?: boolean; list?: boolean; json?: boolean; quiet?: boolean };

const EVERY_MS = 30_000;

const chosen = (names: readonly string[], stages: readonly string[] | undefined): Mutant[] => {
  const unknown = names.filter((name) => !MUTANTS.some((mutant) => mutant.name === name));
  const noStage = (stages ?? []).filter((stage) => !(MINI_STAGE_NAMES as string[]).includes(stage));
  if (unknown.length > 0) {
    throw new CommandError(EXIT.usage, `no mutant is called ${unknown.join(", ")}; --list shows them all`);
  }
  if (noStage.length > 0) {
    throw new CommandError(
      EXIT.usage,
      `no stage is called ${noStage.join(", ")}; expected one of ${MINI_STAGE_NAMES.join(", ")}`,
    );
  }
  return MUTANTS.filter(
    ({ name, stage }) =>
      (names.length === 0 || names.includes(name)) && (stages === undefined || stages.includes(stage)),
  );
};

const table = (rows: readonly (readonly string[])[]): string => {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
};

/** What to say of a trial: on a mutant's own stage a verdict, elsewhere only whether anybody saw it. */
const verdictOf = (trial: Trial, own: boolean): string => {
  if (own) return trial.verdict;
  return trial.by.length > 0 ? "seen" : "not seen";
};

const trialRow = (trial: Trial, own: boolean): string[] => {
  const { mutant, stage, intended, by } = trial;
  const must = mutant === nobody.name ? "(acquit)" : own ? intended.join(", ") : "";
  const meant = by.filter((id) => intended.includes(id));
  const others = by.filter((id) => !intended.includes(id));
  const also = others.length === 0 ? "" : `${meant.length > 0 ? "; also " : ""}${others.join(", ")}`;
  return [verdictOf(trial, own), mutant, stage, must, meant.join(", ") + also];
};

const narrate = (of: number, quiet: boolean) => {
  let done = 0;
  let saidMs = performance.now();
  return (trial: Trial, { own }: Attempt): void => {
    done += 1;
    if (quiet) return;
    const wrong = own && !isRight(trial);
    if (wrong)
      process.stderr.write(`  ${trial.verdict}: ${trial.mutant} on ${trial.stage}\n    ${trial.told.join("\n    ")}\n`);
    if (!wrong && performance.now() - saidMs < EVERY_MS) return;
    saidMs = performance.now();
    process.stderr.write(`  … ${done} of ${of} trials\n`);
  };
};

/** 1 for a survivor or a false positive, 4 for what could not be decided. */
const exitCodeOf = (own: readonly Trial[]): number => {
  if (own.some(({ verdict }) => verdict === "survived" || verdict === "false-positive")) return EXIT.fail;
  return own.every(isRight) ? EXIT.pass : EXIT.inconclusive;
};

const listMutants = (mutants: readonly Mutant[]): void => {
  for (const { name, stage, kills, harm } of mutants) {
    process.stdout.write(`${name}  on ${stage}, by ${kills.join(" and ")}\n    ${harm}\n`);
  }
};

const run = async (names: string[], options: MutantsOptions): Promise<void> => {
  const mutants = chosen(names, options.stage);
  if (options.list === true) return listMutants(mutants);
  const attempts = planTrials(mutants, options.everywhere === true);
  const quiet = options.quiet === true;
  if (!quiet) process.stderr.write(`${attempts.length} trials of ${mutants.length} mutants and the healthy platform\n`);
  const trials = await tryAll(attempts, narrate(attempts.length, quiet));
  const owns = attempts.map(({ own }) => own);
  const notTried = mutants.filter((mutant) => stageOf(mutant) === null);
  process.exitCode = exitCodeOf(trials.filter((_, at) => owns[at]));
  if (options.json === true) {
    const told = trials.map((trial, at) => ({ ...trial, own: owns[at] }));
    const left = notTried.map(({ name, kills, stage }) => ({ mutant: name, stage, intended: kills }));
    process.stdout.write(
      `${JSON.stringify({ exit_code: process.exitCode, trials: told, not_tried: left }, null, 2)}\n`,
    );
    return;
  }
  const rows = [
    ["VERDICT", "MUTANT", "STAGE", "TO BE KILLED BY", "KILLED BY"],
    ...trials.map((trial, at) => trialRow(trial, owns[at] === true)),
    ...notTried.map(({ name, kills }) => ["not tried", name, "gate", kills.join(", "), ""]),
  ];
  process.stdout.write(`${table(rows)}\n`);
  const wrong = trials.filter((trial, at) => owns[at] === true && !isRight(trial));
  const killed = trials.filter(({ verdict }, at) => owns[at] === true && verdict === "killed").length;
  process.stderr.write(
    `${killed} killed by a judge that was meant to, ${wrong.length} wrong, ${notTried.length} for the gate alone\n`,
  );
};

export const mutantsCommand = (): Command =>
  new Command("mutants")
    .description("who must catch each mutant, and who did")
    .argument("[name...]", "only these mutants")
    .option("--stage <name...>", "only mutants of these stages")
    .option("--everywhere", "each mutant on every stage, to see who else would have caught it (takes a while)")
    .option("--list", "say what each mutant does and who must catch it, and end")
    .option("--json", "print the trials as JSON on stdout")
    .option("--quiet", "no progress")
    .action(run);

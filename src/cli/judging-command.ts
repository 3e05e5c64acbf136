/** What commands that judge a deployment share: options, the plan of `--dry-run`, recording, replay and exit code. */
import { basename, join, sep } from "node:path";
import { type Command, Option } from "commander";
import { SERVED_TEXT, withServed } from "../deployments/deployment.ts";
import { terminalText, wrapped } from "../report/terminal.ts";
import type { RunRequest, RunResult } from "../run/recorded-run.ts";
import { type DeploymentWish, type PlannedTarget, type PlanRequest, planStages } from "../stages/stage-plan.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import { type CommandRows, commandOf, I_OWN, isStated, type OptionRow, whole, withOptions } from "./options.ts";
import { isTerminal, narrator, printJson, printNote, printPainted, printShown, type Shown } from "./printing.ts";

export type JudgingOptions = Partial<Record<"json" | "quiet" | "dryRun" | "heal", boolean>> &
  Partial<Record<"target" | "out", string>> & { seed?: number; iOwn?: string[] };

export type Common = Pick<RunRequest, "seed" | "reports" | "out" | "healFirst" | "replay" | "events"> & DeploymentWish;

export type Judging = {
  /** Shows what `play` would send; for `--dry-run`. */
  plan?(place: DeploymentWish, targetFile: string, otherFile: string): Promise<Shown>;
  play(common: Common, targetFile: string, otherFile: string): Promise<RunResult>;
  /** Target files in place of `--target`. */
  files?: readonly string[];
  /** How many reference platforms are started where no target file is given, and the note that says so. */
  served?: { count: number; said: string };
};

export const REPORTS = join(REPOSITORY, "reports");

export type Limiter = "sqlite" | "redis";

// biome-ignore format: a row is a line
export const LIMITER: OptionRow = ["--limiter <store>", "of the embedded deployment; redis needs redis-server on PATH", ["sqlite", "redis"], "sqlite"];

export const recordingOptions = (command: Command): Command =>
  command
    .option("--seed <n>", "repeats the schedule and choices of the run with this seed", whole(0))
    .addOption(
      new Option("--out <dir>", "where the run folder is made (default: under reports/runs)").env("FLOODGATE_OUT"),
    )
    .option("--json", "print run.json on stdout")
    .option("--quiet", "no progress; the verdict is still printed");

const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** Options that change what a run reports, or where to, but not what it does. */
const NOT_REPEATED: ReadonlySet<string> = new Set(["seed", "out", "json", "quiet", "dryRun", "heal"]);

/**
 * The scripts for CI keep a target file that holds secrets in this folder and remove it at the end, so the line that
 * repeats a run names the file as it would be called here.
 */
const lasting = (value: string): string => {
  const folder = process.env.FLOODGATE_PRIVATE_FOLDER ?? "";
  return folder !== "" && value.startsWith(folder + sep) ? basename(value) : value;
};

const pathOf = (command: Command): string[] => (command.parent ? [...pathOf(command.parent), command.name()] : []);

/** Returns a command's words as they were typed or stated elsewhere, without the options that `without` names. `forK6`: the words after `--`. */
const typedWords = (command: Command, without: readonly string[] = []): { words: string[]; forK6: string[] } => {
  const options = command.options.flatMap((option) => {
    const name = option.attributeName();
    if (!isStated(command, option) || NOT_REPEATED.has(name) || without.includes(name)) return [];
    const values: unknown[] = [command.getOptionValue(name)].flat();
    return values.flatMap((value) => [option.long as string, ...(value === true ? [] : [quoted(lasting(`${value}`))])]);
  });
  const operands: string[] = command.processedArgs.flat().filter((word) => word !== undefined);
  const names = operands.map(quoted);
  // An operand with a dash was typed after `--`.
  const isForK6 = operands.some((word) => word.startsWith("-"));
  return {
    words: [...pathOf(command), ...(isForK6 ? [] : names), ...options],
    forK6: isForK6 ? ["--", ...names] : [],
  };
};

const placeOf = ({ target, iOwn = [] }: JudgingOptions): DeploymentWish => ({ targetFile: target, owned: iOwn });

/** Plays a run with progress on stderr, prints its verdict and sets the exit code. */
export const recorded = async (command: Command, play: (common: Common) => Promise<RunResult>): Promise<void> => {
  const options = command.opts<JudgingOptions>();
  const { seed = Math.floor(Math.random() * 2 ** 31), out } = options;
  const title = typedWords(command, ["target", "iOwn", "base", "head"]).words.join(" ");
  const say = narrator({ quiet: options.quiet === true, title, seed });
  const { words, forK6 } = typedWords(command);
  const replay = ["npx floodgate", ...words, "--seed", seed, ...forK6].join(" ");
  const how = { seed, reports: REPORTS, out, healFirst: options.heal === true, replay, events: say };
  const { document, folder } = await play({ ...how, ...placeOf(options) }).finally(say.end);
  printPainted(`${terminalText(document, { folder: folder.path, colour: isTerminal() })}\n`);
  if (options.json === true) printJson(document);
  process.exitCode = document.exit_code;
};

const row = (name: string, driver: string, seconds: string, calls: string): string =>
  `${name.padEnd(40)} ${driver.padEnd(10)} ${seconds.padStart(7)} ${calls.padStart(8)}`;

export const budgetLine = ({ budget }: PlannedTarget): string => {
  const units = Object.entries(budget).map(([what, most]) => `${most} ${what}`);
  return units.length === 0 ? "The target file states no budget." : `Budget of the target file: ${units.join(", ")}.`;
};

export const guardLines = (refused: readonly string[]): string[] =>
  refused.flatMap((reason) => wrapped(`A run would be refused by the safety guard: ${reason}`));

export const stagesPlan = async (request: PlanRequest): Promise<Shown> => {
  const plan = await planStages(request);
  const { stages, total, target, refused_by_guard: refused, warnings } = plan;
  const isFrom = request.targetFile !== undefined;
  // Grouped by what they lack. The name under `faults` is left out, because each experiment has its own.
  const byLack = Map.groupBy(
    stages.filter(({ lacks }) => lacks.length > 0),
    ({ lacks }) => [...new Set(lacks.map((lack) => lack.replace(/faults\["[^"]+"\]/, "faults")))].join("; "),
  );
  const minutes = (total.seconds / 60).toFixed(1);
  const lines = [
    `Nothing was sent to ${isFrom ? target.name : "the embedded deployment, nor was it started"}.`,
    "",
    row("stage", "driver", "seconds", "calls"),
    ...stages.flatMap(({ name, driver, seconds, calls, lacks }) =>
      lacks.length > 0 ? [] : [row(name, driver, `${seconds}`, `${calls}`)],
    ),
    row("total", "", `${total.seconds}`, `${total.calls}`),
    "",
    ...wrapped(`At most about ${total.calls} calls in ${minutes} minutes, without the pauses between stages.`),
    ...(isFrom ? wrapped(budgetLine(target)) : []),
    ...[...byLack].flatMap(([lacks, skipped]) =>
      wrapped(`Skipped: ${skipped.map(({ name }) => name).join(", ")}. Missing: ${lacks}.`),
    ),
    ...warnings.flatMap((warning) => wrapped(`Warning: ${warning}`)),
    ...guardLines(refused),
  ];
  return { document: plan, lines };
};

export const ON_SERVED = `no --target: played on the reference platform, started here (${SERVED_TEXT}); \`npx floodgate init --target URL\` writes a file for your deployment`;

/**
 * Makes a command, with options and operands of its own, that judges a deployment. `choose` throws a `UsageError` for
 * options that do not go together, and returns `null` if it has already done the work, such as printing a list.
 */
export const judgingCommand = <O extends JudgingOptions>(
  name: string,
  rows: CommandRows,
  choose: (options: O, command: Command) => Promise<Judging | null> | Judging | null,
): Command => {
  const command = withOptions(commandOf(name, rows), [
    ["--target <file>", "target file of the deployment"],
    I_OWN,
    ["--dry-run", "send nothing; show what would be sent and spent"],
    ["--heal", "first take back what earlier runs left broken (reports/runs)"],
  ]);
  return recordingOptions(command).action(async () => {
    const options = command.opts<O>();
    const judging = await choose(options, command);
    if (judging === null) return;
    const { plan, play, served, files = options.target === undefined ? [] : [options.target] } = judging;
    const judge = async ([file = "", other = ""]: readonly string[]): Promise<void> => {
      if (options.dryRun !== true) return recorded(command, (common) => play(common, file, other));
      if (plan !== undefined) printShown(options.json, await plan(placeOf(options), file, other));
    };
    if (files.length > 0 || served === undefined) return judge(files);
    printNote(served.said);
    return withServed(served.count, judge);
  });
};

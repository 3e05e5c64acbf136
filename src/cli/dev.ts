/** `floodgate dev …`: commands for the work on Floodgate itself. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { describeSchedule } from "../faults/fault-schedule.ts";
import type { Series } from "../history/series.ts";
import { MUTANTS } from "../mutants/catalogue.ts";
import { type Mutant, nobody } from "../mutants/mutant.ts";
import { HEALTHY } from "../platform/parts.ts";
import { pictureOf, THEMES } from "../report/picture.ts";
import { listEntry } from "../report/terminal.ts";
import { EXIT, EXIT_OF_SIGNAL } from "../run/exit-codes.ts";
import { replayScheduleCrash, runChaos, runExplore } from "../run/experiments/run-chaos.ts";
import { readScheduleCrash, type ScheduleCrash } from "../simulation/search-schedules.ts";
import { prepareTarget } from "../stages/stage-plan.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import { listenForStop } from "../supervision/stop-signals.ts";
import { called, RECORDED_BOUNDS, readUserJson, UsageError } from "../supervision/user-file.ts";
import { buildTools } from "../tools/find-tool.ts";
import { tryLaws } from "../trials/laws.ts";
import * as tables from "../trials/table.ts";
import { COLUMNS, isRight, isWrong, MINI_STAGE_NAMES, planTrials, type Trial, tryAll } from "../trials/trials.ts";
import { readCrash } from "../verify/crash.ts";
import { replayCrash } from "../verify/run-verify.ts";
import { type ExploreOptions, exploreWish } from "./chaos.ts";
import { LIMITER, type Limiter, REPORTS, recorded, recordingOptions } from "./judging-command.ts";
import { commandOf, I_OWN, seconds, whole } from "./options.ts";
import { narrator, printJson, printNote, printResult, printShown } from "./printing.ts";
import { type ServeOptions, serve, serveCommandOf } from "./serve.ts";

type MutantsOptions = Partial<Record<"everywhere" | "list" | "json" | "quiet" | "experiments", boolean>> & {
  stage?: string[];
  columns?: string[];
  limiter: Limiter;
};

const requireKnown = (none: string, words: readonly string[], known: readonly string[], some: string): void => {
  const unknown = words.filter((word) => !known.includes(word));
  if (unknown.length === 0) return;
  throw new UsageError(`${none} ${unknown.join(", ")}; expected ${some} of ${known.join(", ")}`);
};

const chosen = (names: readonly string[], { stage, columns = [] }: MutantsOptions): Mutant[] => {
  for (const name of names) called("mutant", name, MUTANTS, "--list shows them all");
  requireKnown("no stage is called", stage ?? [], MINI_STAGE_NAMES, "one");
  requireKnown("no column is called", columns, COLUMNS, "some");
  return MUTANTS.filter(
    (mutant) => (names.length === 0 || names.includes(mutant.name)) && (stage?.includes(mutant.stage) ?? true),
  );
};

const summaryOf = (mutants: readonly Mutant[], trials: readonly Trial[], tookS: number): string => {
  const count = (...verdicts: Trial["verdict"][]) => trials.filter(({ verdict }) => verdicts.includes(verdict)).length;
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

const tryMutants = async (mutants: readonly Mutant[], options: MutantsOptions): Promise<void> => {
  const { quiet = false, json, everywhere = false } = options;
  const columns = COLUMNS.filter((column) => options.columns?.includes(column) ?? true);
  const attempts = planTrials(mutants, { columns, everywhere });
  const lawful = columns.includes("properties") ? [nobody.name, ...mutants.map(({ name }) => name)] : [];
  const say = narrator({ quiet, title: "dev mutants", seed: 0 });
  say.result(`${mutants.length} mutants and the healthy platform, judged by ${columns.join(", ")}`);
  const done = new Set<string | Trial>();
  const onTrial = (trial: Trial): void => {
    // All laws that try one mutant count as one trial.
    done.add(trial.column === "properties" ? trial.mutant : trial);
    const named = `${trial.mutant} on ${trial.stage}`;
    if (!isRight(trial)) say.result(`  ${trial.verdict}: ${named}\n    ${trial.reasons.join("\n    ")}\n`);
    say.progress(`${done.size} trials of about ${attempts.length + lawful.length} done, last ${named}`);
  };
  const stop = listenForStop((signal) => {
    say.end();
    // Drivers end when their stdin closes, laws when this process exits.
    process.exit(EXIT_OF_SIGNAL[signal] ?? EXIT.inconclusive);
  });
  try {
    const laws = lawful.length === 0 ? [] : await tryLaws({ mutants: lawful, onTrial });
    const trials = [...laws, ...(await tryAll(attempts, onTrial))];
    process.exitCode = trials.some(isWrong) ? EXIT.fail : trials.every(isRight) ? EXIT.pass : EXIT.inconclusive;
    say.end();
    const rows = tables.matrixOf(mutants, trials);
    if (json === true) {
      const shown = rows.map(({ mutant, must, cells }) => ({ mutant, must, cells }));
      printJson({ exit_code: process.exitCode, columns, rows: shown, trials });
    } else printResult(tables.mutantsTable(rows, columns));
    if (!quiet) printNote(summaryOf(mutants, trials, performance.now() / 1000));
  } finally {
    say.end();
    stop.release();
  }
};

/** The most tries of one trial: a trial that a busy machine leaves undecided is repeated. */
const ATTEMPTS = 2;

const played = async (names: readonly string[], mutant: string | null, reports: string, options: MutantsOptions) => {
  const { limiter, quiet = false } = options;
  const seed = Math.floor(Math.random() * 2 ** 31);
  const say = narrator({ quiet, title: `chaos ${names.join(" ")}, ${mutant ?? "the healthy platform"}`, seed });
  const serve = mutant === null ? undefined : ["dev", "serve", "--mutant", mutant];
  const replay = `npx floodgate dev mutants --experiments ${mutant ?? ""}`.trim();
  const run = { names, limiter, short: false, owned: [], seed, reports, replay, events: say, serve };
  return (await runChaos(run).finally(say.end)).document;
};

const tried = async (trial: tables.ExperimentTrial, ...how: [reports: string, MutantsOptions]) => {
  for (let attempt = 1; ; attempt += 1) {
    const judged = tables.judgeTrial(trial, await played([trial.passes, trial.on], trial.mutant, ...how));
    if (judged.verdict !== "undecided" || attempt === ATTEMPTS) return judged;
  }
};

/** Tries fault mutants on real experiments, after the healthy platform: a judge that fails it proves nothing. */
const tryOnExperiments = async (names: readonly string[], options: MutantsOptions): Promise<void> => {
  const known = tables.EXPERIMENT_TRIALS.map(({ mutant }) => mutant);
  requireKnown("no experiment is made to kill", names, known, "some");
  const trials = tables.EXPERIMENT_TRIALS.filter(({ mutant }) => names.length === 0 || names.includes(mutant));
  const reports = mkdtempSync(join(tmpdir(), "floodgate-mutants-"));
  using atEnd = new DisposableStack();
  atEnd.defer(() => rmSync(reports, { recursive: true, force: true, maxRetries: 3 }));
  const faults = tables.healthyFaults(await played(tables.experimentsOf(trials), null, reports, options));
  const judged: tables.ExperimentJudged[] = [];
  for (const trial of trials) judged.push(await tried(trial, reports, options));
  const open = judged.filter(({ verdict }) => verdict !== "killed");
  const isFailed = faults.length > 0 || open.some(({ verdict }) => verdict !== "undecided");
  process.exitCode = isFailed ? EXIT.fail : open.length === 0 ? EXIT.pass : EXIT.inconclusive;
  const healthy = faults.length === 0 ? "passes every must of these experiments" : "is condemned:";
  printShown(options.json, {
    document: { exit_code: process.exitCode, healthy: faults, trials: judged },
    lines: [
      ...tables.trialsTable(judged),
      ...judged.flatMap(({ mutant, told }) => told.map((line) => `${mutant}: ${line}`)),
      `the healthy platform ${healthy}`,
      ...faults.map((line) => `  ${line}`),
    ],
  });
};

const mutantsCommand = () =>
  commandOf("mutants", {
    about: "who must catch each mutant, and who did: by properties, verify, load, chaos, gate",
    operands: [["[name...]", "only these mutants"]],
    options: [
      LIMITER,
      ["--stage <name...>", "only mutants that must be caught on these small stages"],
      ["--columns <name...>", `only these judges: ${COLUMNS.join(", ")}`],
      ["--everywhere", "each mutant on every small stage, to see who else would have caught it (an hour or so)"],
      ["--experiments", "those of the fault kind before the real experiments of chaos (ten minutes or so)"],
      ["--list", "say what each mutant does and who must catch it, and end"],
      ["--json", "print matrix and trials as JSON on stdout"],
      ["--quiet", "no progress"],
    ],
  }).action(async (names: string[], options: MutantsOptions) => {
    if (options.experiments === true) return tryOnExperiments(names, options);
    const mutants = chosen(names, options);
    if (options.list !== true) return tryMutants(mutants, options);
    for (const { name, stage, kills, harm } of mutants) {
      printResult(listEntry(name, `on ${stage}, by ${kills.join(" and ")}`, harm));
    }
  });

const ABOUT_TOOLS = "build k6 (with k6/x/sse) and toxiproxy into .tools/; nothing happens when nothing changed";

const toolsCommand = () =>
  commandOf("tools", { about: ABOUT_TOOLS }).action(async () => {
    const { k6, toxiproxy } = await buildTools((line) => void printNote(line));
    printResult(`k6 ${k6.version} ${k6.path}\ntoxiproxy ${toxiproxy.version} ${toxiproxy.path}`);
  });

const mutantCalled = (name: string) => called("mutant", name, MUTANTS, "`floodgate dev mutants --list` shows them all");

const serveCommand = () =>
  serveCommandOf("`serve` with a mutant planted")
    .requiredOption("--mutant <name>", "the behaviour that is spoilt")
    .action((options: ServeOptions & { mutant: string }) =>
      serve(options, mutantCalled(options.mutant).spoil(HEALTHY)),
    );

const simulateCommand = () =>
  recordingOptions(
    commandOf("simulate", {
      about: "the random search of `chaos --explore`, in virtual time: for so many schedules, or with a mutant planted",
      options: [
        ["--mutant <name>", "the spoilt platform in place of the healthy one (virtual links)"],
        ["--schedules <n>", "end after so many", whole(1)],
        ["--for <time>", "end after so long (default: 10m)", seconds],
        ["--real", "on real links: toxiproxy and the embedded deployment"],
        LIMITER,
      ],
      exclusions: [["mutant", "real", "a mutant is planted on virtual links only: leave out --real or --mutant"]],
    }),
  ).action(async (options: ExploreOptions & { schedules?: number; mutant?: string }, command: Command) => {
    const mutant = options.mutant === undefined ? null : mutantCalled(options.mutant).name;
    const wish = { ...exploreWish(options), mutant, most: options.schedules };
    await recorded(command, (common) => runExplore({ ...common, ...wish }));
  });

const EXIT_OF = { fixed: EXIT.pass, failing: EXIT.fail, unclear: EXIT.inconclusive } as const;
/** The budget of a replay, far above the dozen or so calls of a rule. */
const CALLS_AT_MOST = 200;

type ReplayOptions = { target?: string; iOwn?: string[]; json?: boolean };

const replaySchedule = (crash: ScheduleCrash, file: string) => {
  const { seed } = crash.schedule;
  const say = narrator({ quiet: true, title: `dev replay ${file}`, seed });
  const replay = `npx floodgate dev replay ${file}`;
  return replayScheduleCrash(crash, { seed, reports: REPORTS, replay, events: say }).finally(say.end);
};

const replayRule = async (file: string, { target: targetFile, iOwn: owned = [] }: ReplayOptions) => {
  const crash = await readCrash(file);
  if (targetFile === undefined) {
    throw new UsageError("dev replay needs --target FILE, the target file of the deployment on which the case failed");
  }
  const intent = { load: crash.allowed.includes("load"), faults: false, requests: CALLS_AT_MOST };
  const { target, secrets } = await prepareTarget(targetFile, owned, intent);
  return { what: crash.rule, replayed: await replayCrash(crash, target, secrets) };
};

const replayCommand = () =>
  commandOf("replay", {
    about: "one recorded failing case again: fixed, failing or unclear",
    operands: [["<file>", "a file of a run's crashes/"]],
    options: [
      I_OWN,
      ["--target <file>", "target file of the deployment"],
      ["--json", "print the result as JSON on stdout"],
    ],
  }).action(async (file: string, options: ReplayOptions) => {
    const crash = await readScheduleCrash(file);
    const { what, replayed } =
      crash === null
        ? await replayRule(file, options)
        : { what: describeSchedule(crash.schedule), replayed: await replaySchedule(crash, file) };
    const { verdict, reason, expected, got } = replayed;
    if (options.json === true) printJson(replayed);
    printNote(`${verdict}: ${what}: ${reason}\n  expected: ${expected}\n  got: ${got}`);
    process.exitCode = EXIT_OF[verdict];
  });

const pictureCommand = () =>
  commandOf("picture", {
    about: "write the pictures of the README, light and dark, from a run folder",
    operands: [["[run]", "a run folder (default: reports/sample)"]],
    options: [["--out <folder>", "where they go (default: .github)"]],
  }).action((run = join(REPOSITORY, "reports/sample"), { out = join(REPOSITORY, ".github") }) => {
    const series = readUserJson(join(run, "series.json"), RECORDED_BOUNDS) as Series;
    for (const theme of ["light", "dark"] as const) {
      const file = join(out, `overload-${theme}.svg`);
      writeFileSync(file, pictureOf(series, THEMES[theme]));
      printResult(file);
    }
  });

const COMMANDS = [toolsCommand, mutantsCommand, serveCommand, replayCommand, pictureCommand, simulateCommand];

export const devCommand = () => {
  const dev = commandOf("dev", { about: "for those who work on Floodgate" });
  return COMMANDS.reduce((dev, make) => dev.addCommand(make()), dev);
};

/** `floodgate dev …`: for those who work on Floodgate. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { describeSchedule } from "../../faults/fault-schedule.ts";
import type { Series } from "../../history/series.ts";
import { MUTANTS } from "../../mutants/catalogue.ts";
import type { Mutant } from "../../mutants/mutant.ts";
import { HEALTHY } from "../../platform/parts.ts";
import { pictureOf, THEMES } from "../../report/picture.ts";
import { EXIT, UsageError } from "../../run/exit-codes.ts";
import { replayScheduleCrash, runExplore } from "../../run/exploration/run-explore.ts";
import { readScheduleCrash, type ScheduleCrash } from "../../simulation/schedule-crash.ts";
import { prepareTarget } from "../../stages/prepare-target.ts";
import { REPOSITORY } from "../../supervision/repository.ts";
import { RECORDED_BOUNDS, readUserJson } from "../../supervision/user-file.ts";
import { buildTools } from "../../tools/find-tool.ts";
import { readCrash, replayCrash } from "../../verify/replay.ts";
import { type ExploreOptions, exploreWish } from "../chaos.ts";
import { LIMITER, REPORTS, recorded, recordingOptions } from "../judging-command.ts";
import { called, excluding, I_OWN, seconds, whole, withOptions } from "../options/checks.ts";
import { narrator } from "../printing/narrator.ts";
import { printJson, printNote, printResult } from "../printing/output.ts";
import { addServeOptions, type ServeOptions, serve } from "../serve.ts";
import { mutantsCommand } from "./mutants.ts";

const toolsCommand = (): Command =>
  new Command("tools")
    .description("build k6 (with k6/x/sse) and toxiproxy into .tools/; nothing happens when nothing changed")
    .action(async () => {
      const { k6, toxiproxy } = await buildTools((line) => void printNote(line));
      printResult(`k6 ${k6.version} ${k6.path}\ntoxiproxy ${toxiproxy.version} ${toxiproxy.path}`);
    });

const mutantCalled = (name: string): Mutant =>
  called("mutant", name, MUTANTS, "`floodgate dev mutants --list` shows them all");

/** Serves a mutant in a process of its own, as experiments need it. */
const serveCommand = (): Command =>
  addServeOptions(
    new Command("serve")
      .description("`serve` with a mutant planted")
      .requiredOption("--mutant <name>", "the behaviour that is spoilt"),
  ).action((options: ServeOptions & { mutant: string }) => serve(options, mutantCalled(options.mutant).spoil(HEALTHY)));

const exploreCommand = (): Command =>
  recordingOptions(
    excluding(
      withOptions(new Command("explore"), [
        ["--mutant <name>", "the spoilt platform in place of the healthy one (virtual links)"],
        ["--schedules <n>", "end after so many", whole(1)],
        ["--for <time>", "end after so long (default: 10m)", seconds],
        ["--real", "on real links: toxiproxy and the embedded deployment"],
        LIMITER,
      ]),
      [["mutant", "real", "a mutant is planted on virtual links only: leave out --real or --mutant"]],
    ).description("the random search of `chaos --explore`, for so many schedules, or with a mutant planted"),
  ).action(async (options: ExploreOptions & { schedules?: number; mutant?: string }, command: Command) => {
    const mutant = options.mutant === undefined ? null : mutantCalled(options.mutant).name;
    const wish = { ...exploreWish(options), mutant, most: options.schedules };
    await recorded(command, (common) => runExplore({ ...common, ...wish }));
  });

const EXIT_OF = { fixed: EXIT.pass, failing: EXIT.fail, unclear: EXIT.inconclusive } as const;
/** Far more than any rule makes: some dozen. */
const CALLS_AT_MOST = 200;

type ReplayOptions = { target?: string; iOwn?: string[]; json?: boolean };

const replaySchedule = (crash: ScheduleCrash, file: string) => {
  const { seed } = crash.schedule;
  const say = narrator({ quiet: true, title: `dev replay ${file}`, seed });
  const replay = `npx floodgate dev replay ${file}`;
  return replayScheduleCrash(crash, { seed, reports: REPORTS, replay, events: say }).finally(say.end);
};

const replayRule = async (file: string, { target: targetFile, iOwn: owned = [] }: ReplayOptions) => {
  if (targetFile === undefined) {
    throw new UsageError("dev replay needs --target FILE, the target file of the deployment on which the case failed");
  }
  const crash = await readCrash(file);
  const intent = { load: crash.allowed.includes("load"), faults: false, requests: CALLS_AT_MOST };
  const { target, secrets } = await prepareTarget(targetFile, owned, intent);
  return { what: crash.rule, replayed: await replayCrash(crash, target, secrets) };
};

const replayCommand = (): Command =>
  withOptions(new Command("replay"), [I_OWN])
    .description("one recorded failing case again: fixed, failing or unclear")
    .argument("<file>", "a file of a run's crashes/")
    .option("--target <file>", "target file of the deployment")
    .option("--json", "print the result as JSON on stdout")
    .action(async (file: string, options: ReplayOptions) => {
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

const pictureCommand = (): Command =>
  new Command("picture")
    .description("write the pictures of the README, light and dark, from a run folder")
    .argument("[run]", "a run folder", join(REPOSITORY, "reports/sample"))
    .option("--out <folder>", "where they go", join(REPOSITORY, ".github"))
    .action((run: string, { out }: { out: string }) => {
      const series = readUserJson(join(run, "series.json"), RECORDED_BOUNDS) as Series;
      for (const theme of ["light", "dark"] as const) {
        const file = join(out, `overload-${theme}.svg`);
        writeFileSync(file, pictureOf(series, THEMES[theme]));
        printResult(file);
      }
    });

const COMMANDS = [toolsCommand, mutantsCommand, serveCommand, replayCommand, pictureCommand, exploreCommand];

export const command = (): Command =>
  COMMANDS.reduce(
    (dev, make) => dev.addCommand(make()),
    new Command("dev").description("for those who work on Floodgate"),
  );

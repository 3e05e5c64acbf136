/** The random search for schedules of faults, as `chaos --explore` and `dev explore` have it. */
import { Command } from "commander";
import { MUTANTS } from "../mutants/catalogue.ts";
import { EXIT } from "../run/exit-codes.ts";
import { type ExploreWish, runExplore } from "../run/exploration/run-explore.ts";
import { CommandError } from "./command-error.ts";
import { seconds } from "./options/durations.ts";
import { limiterOption, limiterWords } from "./options/limiter-option.ts";
import { whole } from "./options/numbers.ts";
import { commandLine, outOption, runOptions, type TargetOptions } from "./options/target-options.ts";
import { narrator } from "./printing/narrator.ts";
import { showRun } from "./printing/show-run.ts";

export const EXPLORE_MS = 600_000;

export const explore = async (
  words: readonly string[],
  wish: ExploreWish,
  options: Omit<TargetOptions, "target">,
): Promise<void> => {
  const common = runOptions(options);
  const say = narrator({ quiet: options.quiet === true, title: words.join(" "), seed: common.seed });
  const replay = commandLine(words, options, common.seed);
  const result = await runExplore({ ...common, ...wish, replay, events: say }).finally(say.end);
  showRun(result, options);
};

/** What is in this process has no Redis behind it. */
export const requireReal = (limiter: "sqlite" | "redis", real: boolean): void => {
  if (limiter === "redis" && !real) {
    throw new CommandError(EXIT.usage, "--limiter redis needs real links: expected --real beside it");
  }
};

type DevExploreOptions = Omit<TargetOptions, "target"> & {
  for?: number;
  schedules?: number;
  real?: boolean;
  mutant?: string;
  limiter: "sqlite" | "redis";
};

/** With what only those who work on Floodgate need: a planted mutant, and a number of schedules in place of a time. */
export const devExploreCommand = (): Command =>
  new Command("explore")
    .description("the random search of `chaos --explore`, for so many schedules, or with a mutant planted")
    .option("--mutant <name>", "the spoilt platform in place of the healthy one (virtual links)")
    .option("--schedules <n>", "end after so many", whole(1))
    .option("--for <time>", "end after so long (default: 10m)", seconds)
    .option("--real", "on real links: toxiproxy and the embedded deployment")
    .addOption(limiterOption())
    .option("--seed <n>", "repeats the schedules of the run with this seed", whole(0))
    .addOption(outOption())
    .option("--json", "print run.json on stdout")
    .option("--quiet", "no progress; the verdict is still printed")
    .action(async (options: DevExploreOptions) => {
      const { mutant = null, schedules, real = false, limiter } = options;
      requireReal(limiter, real);
      if (mutant !== null && !MUTANTS.some(({ name }) => name === mutant)) {
        throw new CommandError(
          EXIT.usage,
          `there is no mutant "${mutant}"; \`floodgate dev mutants --help\` says more`,
        );
      }
      if (mutant !== null && real) {
        throw new CommandError(EXIT.usage, "a mutant is planted on virtual links only: leave out --real or --mutant");
      }
      const words = [
        ...["dev", "explore", ...(mutant === null ? [] : ["--mutant", mutant]), ...(real ? ["--real"] : [])],
        ...limiterWords(limiter),
        ...(schedules === undefined ? [] : ["--schedules", `${schedules}`]),
      ];
      const wish: ExploreWish = {
        forMs: options.for === undefined ? EXPLORE_MS : options.for * 1_000,
        links: real ? "real" : "virtual",
        limiter,
        mutant,
      };
      await explore(words, schedules === undefined ? wish : { ...wish, most: schedules }, options);
    });

/** `floodgate run`: the main job, on the embedded deployment or on anybody's. */
import { Command } from "commander";
import { noSuch } from "../contract/nearest.ts";
import { EXIT } from "../run/exit-codes.ts";
import { runStages } from "../run/run-stages.ts";
import { SUITES } from "../run/suites/catalogue.ts";
import { CommandError } from "./command-error.ts";
import { limiterOf, limiterOption, limiterWords } from "./options/limiter-option.ts";
import { commandLine, runOptions, type TargetOptions, withTargetOptions } from "./options/target-options.ts";
import { wrapped } from "./printing/findings-text.ts";
import { narrator } from "./printing/narrator.ts";
import { showPlan } from "./printing/show-plan.ts";
import { showRun } from "./printing/show-run.ts";

type RunCommandOptions = TargetOptions & { limiter: "sqlite" | "redis"; short?: boolean };

const NAMES = [...SUITES.keys()].join(", ");

const EXPLAINED = `
Suites:
${[...SUITES.values()].flatMap(({ name, purpose }) => wrapped(purpose, `  ${name.padEnd(9)}`, 11)).join("\n")}

Without --target the reference platform is started here, with toxiproxy between
its parts. What a deployment lacks for a stage is skipped by name.

Exit codes: 0 every claim that must hold and was judged holds; 1 one is broken;
4 one could not be decided, or something in \`required\` was not judged.`;

export const runCommand = (): Command =>
  withTargetOptions(
    new Command("run")
      .description("play a suite: rules, load and faults, judged and reported")
      .argument("[suite]", `one of ${NAMES}`, "smoke")
      .addOption(limiterOption())
      .option("--short", "stages of minutes take a fifth of their time, for a first look")
      .addHelpText("after", EXPLAINED),
  ).action(async (name: string, options: RunCommandOptions) => {
    const suite = SUITES.get(name);
    if (suite === undefined) {
      throw new CommandError(EXIT.usage, noSuch("suite", name, SUITES.keys(), `expected one of ${NAMES}`));
    }
    const short = options.short === true;
    const stages = { stages: suite.stages, short };
    const limiter = limiterOf(options);
    const common = runOptions(options);
    const deployment = options.target === undefined ? {} : { targetFile: options.target };
    if (options.dryRun === true) return showPlan({ ...common, ...deployment, limiter, stages }, options.json === true);
    const words = ["run", name, ...(short ? ["--short"] : []), ...limiterWords(limiter)];
    const say = narrator({ quiet: options.quiet === true, title: words.join(" "), seed: common.seed });
    const replay = commandLine(words, options, common.seed);
    const result = await runStages({
      ...common,
      ...deployment,
      limiter,
      profile: name,
      replay,
      stages,
      events: say,
    }).finally(say.end);
    showRun(result, options);
  });

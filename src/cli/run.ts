/** `floodgate run`: the main job, on the embedded deployment or on anybody's. */
import { Command } from "commander";
import { wrapped } from "../report/terminal.ts";
import { runStages } from "../run/run-stages.ts";
import { SUITES } from "../run/suites/suites.ts";
import { type JudgingOptions, judgingCommand, LIMITER, type Limiter, stagesPlan } from "./judging-command.ts";
import { called, EMBEDDED_ALONE, excluding, withOptions } from "./options/checks.ts";

type RunOptions = JudgingOptions & { limiter: Limiter; short?: boolean };

const NAMES = [...SUITES.keys()].join(", ");

const EXPLAINED = `
Suites:
${[...SUITES.values()].flatMap(({ name, purpose }) => wrapped(purpose, `  ${name.padEnd(9)}`, 11)).join("\n")}

Without --target the reference platform is started here, with toxiproxy between
its parts. What a deployment lacks for a stage is skipped by name.

Exit codes: 0 every claim that must hold and was judged holds; 1 one is broken;
4 one could not be decided, or something in \`required\` was not judged.`;

export const command = (): Command =>
  judgingCommand<RunOptions>(
    withOptions(excluding(new Command("run"), [EMBEDDED_ALONE]), [
      LIMITER,
      ["--short", "stages of minutes take a fifth of their time, for a first look"],
    ])
      .description("play a suite: rules, load and faults, judged and reported")
      .argument("[suite]", `one of ${NAMES}`, "smoke")
      .addHelpText("after", EXPLAINED),
    ({ limiter, short = false }, { processedArgs: [name] }) => {
      const suite = called("suite", name, SUITES.values(), `expected one of ${NAMES}`);
      const stages = { stages: suite.stages, short };
      return {
        plan: (place) => stagesPlan({ ...place, limiter, stages }),
        play: (common) => runStages({ ...common, limiter, profile: name, stages }),
      };
    },
  );

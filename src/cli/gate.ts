/** `floodgate gate`: is the head worse than the base? */

import { Command } from "commander";
import { withServed } from "../deployments/served.ts";
import { PAIRS_DEFAULT, PAIRS_MOST } from "../gate/block-plan.ts";
import { EXIT } from "../run/exit-codes.ts";
import { GATE_SCENARIO } from "../run/gate/base-capacity.ts";
import { type GateWishes, gateTargets, planGate } from "../run/gate/gate-targets.ts";
import { CommandError } from "./command-error.ts";
import { gateRecorded, isRecorded, type RecordedOptions } from "./gate-recorded.ts";
import { positive, whole } from "./options/numbers.ts";
import { once } from "./options/once.ts";
import { commandLine, ON_SERVED, runOptions, type TargetOptions, withTargetOptions } from "./options/target-options.ts";
import { narrator } from "./printing/narrator.ts";
import { printJson, printNote, printResult } from "./printing/output.ts";
import { showRun } from "./printing/show-run.ts";

type GateOptions = TargetOptions &
  RecordedOptions & {
    base?: string;
    head?: string;
    scenario: string;
    rate?: number;
    pairs?: number;
  };

const EXPLAINED = `
Three ways to ask: --base and --head (both are loaded in turn, in pairs of short
blocks below and above the base's capacity); --before and --after; --baseline
and --run. The last two compare recorded runs and send nothing.

Exit codes: 0 no worse than allowed; 1 worse, or an invariant breaks on the head
alone; 4 too few or too noisy pairs to say.`;

const showPlan = async (wishes: GateWishes, json: boolean): Promise<void> => {
  const plan = await planGate(wishes);
  if (json) {
    printJson(plan);
    return;
  }
  const { load, capacity_per_s: capacity } = plan;
  const minutes = (s: number | null): string => ((s ?? 0) / 60).toFixed(1);
  const lines = [
    `Nothing was sent to ${plan.base} or ${plan.head}.`,
    ...(load === null
      ? ["The base's capacity is not stated, so a few probes would find it first (--rate N states it)."]
      : [
          `Blocks at ${load.lowPerS.toFixed(1)} and ${load.overloadPerS.toFixed(1)} calls/s: the base's capacity is ${capacity?.toFixed(1)} calls/s.`,
          `${plan.pairs} pairs: about ${plan.calls_each} calls to each side in ${minutes(plan.seconds)} minutes;`,
          `up to ${plan.pairs_at_most} pairs where that decides nothing: ${plan.calls_each_at_most} calls in ${minutes(plan.seconds_at_most)} minutes.`,
        ]),
    ...plan.lacks.map((lack) => `It could not be played: ${lack}`),
    ...plan.refused_by_guard.map((reason) => `A run would be refused by the safety guard: ${reason}`),
  ];
  printResult(lines.join("\n"));
};

const compareFiles = async (base: string, head: string, options: GateOptions): Promise<void> => {
  const { scenario, rate, pairs } = options;
  const wishes: GateWishes = {
    baseFile: base,
    headFile: head,
    owned: options.iOwn ?? [],
    scenario,
    ...(rate === undefined ? {} : { ratePerS: rate }),
    ...(pairs === undefined ? {} : { pairs }),
  };
  if (options.dryRun === true) return showPlan(wishes, options.json === true);
  const common = runOptions(options);
  const files = options.base === undefined ? [] : ["--base", base, "--head", head];
  const words = ["gate", ...files, "--scenario", scenario];
  if (rate !== undefined) words.push("--rate", `${rate}`);
  if (pairs !== undefined) words.push("--pairs", `${pairs}`);
  const say = narrator({ quiet: options.quiet === true, title: "gate", seed: common.seed });
  const result = await gateTargets({
    ...common,
    ...wishes,
    events: say,
    replay: commandLine(words, options, common.seed),
  }).finally(say.end);
  if (result.table.length > 0) printNote(`\n${result.table.join("\n")}\n\n`);
  showRun(result, options);
};

const compareTargets = async (options: GateOptions): Promise<void> => {
  const { base, head } = options;
  if (isRecorded(options)) {
    if (base === undefined && head === undefined) return gateRecorded(options);
    throw new CommandError(EXIT.usage, "gate compares either --base and --head, or recorded runs, not both");
  }
  if (options.target !== undefined) {
    throw new CommandError(EXIT.usage, "gate compares two deployments: --base FILE and --head FILE, not --target");
  }
  if (base === undefined && head === undefined) {
    printNote(
      `${ON_SERVED.replace("no --target", "no --base and --head")}. Both sides are the same here, so nothing is worse`,
    );
    return withServed(2, ([first = "", second = ""]) => compareFiles(first, second, options));
  }
  if (base === undefined || head === undefined) {
    throw new CommandError(EXIT.usage, "gate needs --base FILE and --head FILE, the target files of two deployments");
  }
  return compareFiles(base, head, options);
};

export const gateCommand = (): Command => {
  const command = new Command("gate")
    .description("compare two deployments: is the head worse than the base?")
    .option("--base <file>", "target file of the deployment that is known", once)
    .option("--head <file>", "target file of the deployment that may be worse", once)
    .option("--scenario <name>", "what is played", GATE_SCENARIO)
    .option("--rate <n>", "the base's capacity in calls/s, where its `limits` do not state it", positive)
    .option(
      "--pairs <n>",
      `pairs of blocks before the first look (default ${PAIRS_DEFAULT}); up to ${PAIRS_MOST} where that leaves something open`,
      whole(1, PAIRS_MOST),
    )
    .option("--before <run...>", "run folders of what is known")
    .option("--after <run...>", "run folders of what may be worse")
    .option("--baseline <file>", "a saved baseline, compared with --run")
    .option("--run <dir...>", "run folders, for --baseline or --save-baseline")
    .option("--save-baseline <file>", "write the figures of --run as a baseline")
    .option("--reason <text>", "why this is the baseline; kept in the file");
  withTargetOptions(command);
  // Known, so that who gives it reads a sentence; not offered.
  command.options.find(({ long }) => long === "--target")?.hideHelp();
  return command.addHelpText("after", EXPLAINED).action(compareTargets);
};

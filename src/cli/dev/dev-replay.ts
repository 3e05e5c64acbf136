/** `floodgate dev replay FILE`: one recorded failing case again: fixed, failing or unclear. */

import { Command } from "commander";
import { EXIT } from "../../run/exit-codes.ts";
import { replayScheduleCrash } from "../../run/exploration/replay-schedule.ts";
import { describeSchedule } from "../../simulation/fault-schedule.ts";
import { readScheduleCrash, type ScheduleCrash } from "../../simulation/schedule-crash.ts";
import { GuardError } from "../../stages/prepare-target.ts";
import { createSecrets } from "../../target/secrets.ts";
import { readTargetFile } from "../../target/target-file.ts";
import { guardTarget } from "../../target/target-guard.ts";
import { readCrash, replayCrash } from "../../verify/replay.ts";
import { CommandError } from "../command-error.ts";
import { I_OWN } from "../options/owned-hosts.ts";
import { runOptions } from "../options/target-options.ts";
import { narrator } from "../printing/narrator.ts";
import { printJson, printNote } from "../printing/output.ts";

const EXIT_OF = { fixed: EXIT.pass, failing: EXIT.fail, unclear: EXIT.inconclusive } as const;
/** A rule makes some dozen calls at the most. */
const CALLS_AT_MOST = 200;

type ReplayOptions = { target?: string; iOwn?: string[]; json?: boolean };

/** On the platform here, so that no target is needed. */
const replayFaults = async (crash: ScheduleCrash, file: string, { json }: ReplayOptions): Promise<void> => {
  const common = runOptions({ seed: crash.schedule.seed });
  const say = narrator({ quiet: true, title: `dev replay ${file}`, seed: common.seed });
  const replay = `npx floodgate dev replay ${file}`;
  const replayed = await replayScheduleCrash(crash, { ...common, replay, events: say }).finally(say.end);
  const { verdict, reason, expected, got } = replayed;
  if (json === true) printJson(replayed);
  const what = describeSchedule(crash.schedule);
  printNote(`${verdict}: ${what}: ${reason}\n  expected: ${expected}\n  got: ${got}`);
  process.exitCode = EXIT_OF[verdict];
};

export const replayCommand = (): Command =>
  new Command("replay")
    .description("one recorded failing case again: fixed, failing or unclear")
    .argument("<file>", "a file of a run's crashes/")
    .option("--target <file>", "target file of the deployment")
    .option(...I_OWN)
    .option("--json", "print the result as JSON on stdout")
    .action(async (file: string, options: ReplayOptions) => {
      const faults = await readScheduleCrash(file);
      if (faults !== null) return replayFaults(faults, file, options);
      if (options.target === undefined)
        throw new CommandError(
          EXIT.usage,
          "dev replay needs --target FILE, the target file of the deployment on which the case failed",
        );
      const crash = await readCrash(file);
      const { target, folder } = await readTargetFile(options.target);
      const load = crash.allowed.includes("load");
      const guard = await guardTarget(target, options.iOwn ?? [], { load, faults: false, requests: CALLS_AT_MOST });
      if (!guard.ok) throw new GuardError(guard.reasons);
      const replayed = await replayCrash(crash, target, createSecrets(folder));
      const { verdict, reason, expected, got } = replayed;
      if (options.json === true) printJson(replayed);
      printNote(`${verdict}: ${crash.rule}: ${reason}\n  expected: ${expected}\n  got: ${got}`);
      process.exitCode = EXIT_OF[verdict];
    });

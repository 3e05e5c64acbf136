/** `floodgate run`: the main job. */

import { join } from "node:path";
import { Command, Option } from "commander";
import { terminalText } from "../report/terminal.ts";
import { REPOSITORY } from "../run/environment.ts";
import { runProfile } from "../run/run.ts";
import { PROFILES } from "../run/suites/smoke.ts";
import { CommandError, EXIT } from "./exit-codes.ts";
import { narrator } from "./narrator.ts";
import { whenNpmIsGone } from "./npm-parent.ts";
import { whole } from "./numbers.ts";

type RunCommandOptions = { seed?: number; out?: string; json?: boolean; quiet?: boolean };

export const runCommand = (): Command =>
  new Command("run")
    .description("the main job: load, chaos, judge, report, against the embedded deployment")
    .argument("[profile]", `one of ${Object.keys(PROFILES).join(", ")}`, "smoke")
    .option("--seed <n>", "of schedules, choices and service times", whole(0))
    .option("--out <dir>", "the run folder (default: a new one under reports/runs)")
    .addOption(new Option("--json", "print the content of run.json on stdout"))
    .option("--quiet", "no progress")
    .action(async (profile: string, options: RunCommandOptions) => {
      if (!(profile in PROFILES)) {
        const names = Object.keys(PROFILES).join(", ");
        throw new CommandError(EXIT.usage, `there is no profile "${profile}"; expected one of ${names}`);
      }
      const seed = options.seed ?? Math.floor(Math.random() * 2 ** 31);
      const say = narrator({ quiet: options.quiet === true, profile, seed });
      // Where npm or the launcher is gone, nobody waits for this run any more.
      if (process.connected) {
        process.on("disconnect", () => process.kill(process.pid, "SIGTERM"));
        // Listening to the launcher must not keep a finished run alive.
        process.channel?.unref();
      }
      whenNpmIsGone(() => process.kill(process.pid, "SIGTERM"));
      const { document, folder } = await runProfile({
        ...{ profile, seed, reports: join(REPOSITORY, "reports"), events: say },
        ...(options.out === undefined ? {} : { out: options.out }),
      });
      say.end();
      const colour = process.stderr.isTTY === true && process.env.NO_COLOR === undefined;
      process.stderr.write(`${terminalText(document, { folder: folder.path, colour })}\n`);
      if (options.json === true) process.stdout.write(`${JSON.stringify(document, null, 2)}\n`);
      const unmet = document.claims.find(({ id }) => id === "run/completed");
      if (document.exit_code === EXIT.unreachable && unmet !== undefined) {
        process.stderr.write(`floodgate: ${unmet.reason}\n`);
      }
      process.exitCode = document.exit_code;
    });

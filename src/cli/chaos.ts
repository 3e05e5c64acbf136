/** `floodgate chaos`: fault experiments, on the embedded deployment or on anybody's. */
import { Command } from "commander";
import { chaosRefusals, chaosStages, runChaos } from "../run/experiments/run-chaos.ts";
import { CommandError, EXIT } from "./exit-codes.ts";
import { narrator } from "./narrator.ts";
import { whenNpmIsGone } from "./npm-parent.ts";
import { listExperiments } from "./show-experiments.ts";
import { showHealed } from "./show-healed.ts";
import { showPlan } from "./show-plan.ts";
import { showRun, stopWithLauncher } from "./show-run.ts";
import { commandLine, runOptions, type TargetOptions, withTargetOptions } from "./target-options.ts";

type ChaosOptions = TargetOptions & { short?: boolean; list?: boolean; heal?: boolean; watchdog?: boolean };

const NO_WATCHDOG =
  "chaos --watchdog is not built yet: a fault on a toxiproxy of another host needs it, so run floodgate on that host with toxiproxy on loopback";

const HELP = `
Each experiment: steady state, fault, does it bite, hold, heal, recovery.
Faults are removed whatever happens, also after kill -9 of the runner.

On a deployment of yours: \`toxiproxy\` or \`faults\` in the target file, with
"permits": { "chaos": true }. Other proxies, and toxics that are not ours, are
not touched. A toxiproxy on another host is refused (exit 5): healing it when
this machine is cut off needs \`chaos --watchdog\`, which is not built yet.

Examples:
  npx floodgate chaos --list
  npx floodgate chaos limiter-refused keys-reply-lost
  npx floodgate chaos --target target.json
  npx floodgate chaos --heal`;

export const chaosCommand = (): Command =>
  withTargetOptions(
    new Command("chaos")
      .description("break a dependency under load, see what callers get, heal it, see it recover")
      .argument("[experiment...]", "names as in --list (default: all that the deployment can have)")
      .option("--list", "every experiment: what it breaks and what must hold")
      .option("--heal", "take back what earlier runs left broken (reports/runs, or the folder of --out)")
      .option("--short", "of all, a fifth: each dependency refused, and its replies lost")
      .option("--watchdog", "not built yet: runs beside a remote proxy")
      .addHelpText("after", HELP),
  ).action(async (names: string[], options: ChaosOptions) => {
    const json = options.json === true;
    if (options.watchdog === true) throw new CommandError(EXIT.usage, NO_WATCHDOG);
    if (options.list === true) return listExperiments(options.target, json);
    const common = runOptions(options);
    if (options.heal === true) return showHealed(common.reports, options.out, json);
    const short = options.short === true;
    const deployment = options.target === undefined ? {} : { targetFile: options.target };
    const wish = { names, short };
    if (options.dryRun === true) {
      return showPlan({ ...common, ...deployment, stages: chaosStages(wish), refusals: chaosRefusals }, json);
    }
    const words = ["chaos", ...names, ...(short ? ["--short"] : [])];
    const say = narrator({ quiet: options.quiet === true, title: words.join(" "), seed: common.seed });
    stopWithLauncher(whenNpmIsGone);
    const replay = commandLine(words, options, common.seed);
    const result = await runChaos({ ...common, ...deployment, ...wish, replay, events: say }).finally(say.end);
    showRun(result, options);
  });

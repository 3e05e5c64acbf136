/** `floodgate chaos`: fault experiments, on the embedded deployment or on anybody's. */
import { Command } from "commander";
import { EXIT } from "../run/exit-codes.ts";
import { chaosRefusals, chaosStages, runChaos } from "../run/experiments/run-chaos.ts";
import { CommandError } from "./command-error.ts";
import { EXPLORE_MS, explore, requireReal } from "./explore.ts";
import { seconds } from "./options/durations.ts";
import { limiterOf, limiterOption, limiterWords } from "./options/limiter-option.ts";
import { commandLine, runOptions, type TargetOptions, withTargetOptions } from "./options/target-options.ts";
import { narrator } from "./printing/narrator.ts";
import { listExperiments } from "./printing/show-experiments.ts";
import { showHealed } from "./printing/show-healed.ts";
import { showPlan } from "./printing/show-plan.ts";
import { showRun } from "./printing/show-run.ts";
import { WATCHDOG_LISTENS, watchBesideProxy } from "./watchdog.ts";

type ChaosOptions = TargetOptions & {
  limiter: "sqlite" | "redis";
  short?: boolean;
  list?: boolean;
  watchdog?: boolean;
  explore?: boolean;
  for?: number;
  real?: boolean;
  listen: string;
};

/** `null`: nothing is to be explored. Throws what does not go together. */
const explored = (
  { explore: wanted, for: forS, real, target, dryRun, limiter }: ChaosOptions,
  names: readonly string[],
) => {
  if (wanted !== true) {
    if (forS === undefined && real === undefined) return null;
    throw new CommandError(EXIT.usage, "--for and --real belong to `chaos --explore`");
  }
  if (names.length > 0) throw new CommandError(EXIT.usage, "--explore draws its own faults: leave out the names");
  if (target !== undefined) {
    throw new CommandError(EXIT.usage, "--explore works on the embedded deployment, so it takes no --target");
  }
  if (dryRun === true) throw new CommandError(EXIT.usage, "--explore sends nothing to anybody: there is no --dry-run");
  requireReal(limiter, real === true);
  return {
    forMs: forS === undefined ? EXPLORE_MS : forS * 1_000,
    links: real === true ? ("real" as const) : ("virtual" as const),
    limiter,
    mutant: null,
  };
};

const HELP = `
Each experiment: steady state, fault, does it bite, hold, heal, recovery.
Faults are removed whatever happens, also after kill -9 of the runner.

On a deployment of yours: \`toxiproxy\` or \`faults\` in the target file, with
"permits": { "chaos": true }. Other proxies, and toxics that are not ours, are
not touched. A run on a deployment with one of our faults still in it is refused
(exit 5). \`--heal --target FILE\` takes such faults back and says whether the
proxies serve; with experiments that are named, and with other commands, it does
that first. Heal commands are those of FILE as it is now; no command is ever read
from a run folder. Without --target only processes and folders of ours are ended
and removed, and the rest is named. \`--out DIR\`: one run folder instead of all.
Exit 4: something could not be healed.

A fault on another host (toxiproxy, or commands) needs a watchdog beside it,
which heals when the heartbeat of the run stops; without one it is refused
(exit 5). There: chaos --watchdog --target FILE --listen HOST:PORT. Here, in the
target file: "watchdog": { "url": "http://HOST:PORT", "token": "env:NAME" }.`;

export const chaosCommand = (): Command =>
  withTargetOptions(
    new Command("chaos")
      .description("break something under load, see what callers get, heal it, see it recover")
      .argument("[experiment...]", "names as in --list (default: all that the deployment can have)")
      .option("--list", "every experiment: what it breaks and what must hold")
      .option("--explore", "random schedules of faults, in virtual time; what fails is made short")
      .option("--for <time>", "how long to explore (default: 10m)", seconds)
      .option("--real", "explore on real links: toxiproxy and the embedded deployment")
      .addOption(limiterOption())
      .option("--short", "of all, four: each dependency refused, and its replies lost")
      .option("--watchdog", "run beside a remote proxy; heal when the heartbeat of a run stops")
      .option("--listen <host:port>", "where the watchdog listens", WATCHDOG_LISTENS)
      .addHelpText("after", HELP),
  ).action(async (names: string[], options: ChaosOptions, command: Command) => {
    const json = options.json === true;
    const wishedSearch = explored(options, names);
    if (wishedSearch !== null) {
      const length = `${wishedSearch.forMs / 1_000}s`;
      const words = ["chaos", "--explore", "--for", length, ...(options.real === true ? ["--real"] : [])];
      words.push(...limiterWords(wishedSearch.limiter));
      return explore(words, wishedSearch, options);
    }
    if (options.watchdog === true) return watchBesideProxy(options.target, options.listen);
    if (options.list === true) return listExperiments(options.target, json);
    const common = runOptions(options);
    // Alone it is all there is to do; with experiments that are named it goes first.
    if (options.heal === true && names.length === 0) {
      const { reports, owned, out } = common;
      const target = options.target === undefined ? {} : { targetFile: options.target };
      // Where runs are made is one place more to look; a folder that was named is all.
      const isNamed = command.getOptionValueSource("out") === "cli";
      return showHealed({ reports, owned, json, ...target, ...(out === undefined ? {} : { out, onlyOut: isNamed }) });
    }
    const short = options.short === true;
    const deployment = options.target === undefined ? {} : { targetFile: options.target };
    const wish = { names, short, limiter: limiterOf(options) };
    if (options.dryRun === true) {
      return showPlan(
        { ...common, ...deployment, limiter: wish.limiter, stages: chaosStages(wish), refusals: chaosRefusals },
        json,
      );
    }
    const words = ["chaos", ...names, ...(short ? ["--short"] : []), ...limiterWords(wish.limiter)];
    const say = narrator({ quiet: options.quiet === true, title: words.join(" "), seed: common.seed });
    const replay = commandLine(words, options, common.seed);
    const result = await runChaos({ ...common, ...deployment, ...wish, replay, events: say }).finally(say.end);
    showRun(result, options);
  });

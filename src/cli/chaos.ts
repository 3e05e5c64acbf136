/** `floodgate chaos`: fault experiments, random schedules of faults, and the healing of faults that a run left behind. */
import { dirname } from "node:path";
import { Command } from "commander";
import { EXIT, UsageError } from "../run/exit-codes.ts";
import { type Healed, type HealedRun, healLeftOpen } from "../run/experiments/heal-left-open.ts";
import { chaosRefusals, chaosStages, runChaos } from "../run/experiments/run-chaos.ts";
import { type ExploreWish, runExplore } from "../run/exploration/run-explore.ts";
import { type PreparedTarget, prepareTarget } from "../stages/prepare-target.ts";
import { type Lock, lockTarget } from "../target/lock.ts";
import {
  type Judging,
  type JudgingOptions,
  judgingCommand,
  type Limiter,
  limiterOption,
  REPORTS,
} from "./judging-command.ts";
import { EMBEDDED_ALONE, type Exclusion, excluding, seconds } from "./options/checks.ts";
import { printShown } from "./printing/output.ts";
import { listExperiments } from "./printing/show-experiments.ts";
import { stagesPlan } from "./printing/show-plan.ts";
import { WATCHDOG_LISTENS, watchBesideProxy } from "./watchdog.ts";

const linesOf = ({ journal, running, taken }: HealedRun): string[] => {
  const run = dirname(journal);
  if (running !== null) {
    const broken =
      running.length === 0 ? "has nothing broken now" : `has broken ${running.join(", ")} and heals that itself`;
    return [`${run}: the run is still going and ${broken}`];
  }
  const said = taken
    .filter(({ did }) => did !== "nothing to take back")
    .map(({ kind, name, did, trouble }) => `  ${kind} ${name}: ${trouble === null ? did : `STILL BROKEN: ${trouble}`}`);
  return [`${run}:`, ...(said.length === 0 ? ["  nothing was broken"] : said)];
};

const lineOfProxy = ({ name, did, trouble }: Healed): string =>
  `proxy ${name}: ${trouble === null ? `${did === "" ? "" : `${did}; `}it serves` : `NOT WHOLE: ${trouble}`}`;

/** Healing sends no load and injects no fault; the guard still checks that the hosts are the user's. */
const NO_LOAD = { load: false, faults: false, requests: 0 };

/** Undoes what runs left broken and reports it run by run, then each proxy of the target file. Exit code 4: something is still broken. */
const heal = async ({ target: file, iOwn: owned = [], out, json }: JudgingOptions, isOutTyped: boolean) => {
  const given: PreparedTarget[] = file === undefined ? [] : [await prepareTarget(file, owned, NO_LOAD)];
  const locks: Lock[] = [];
  try {
    // A run that is still going heals its own faults.
    for (const { target } of given) locks.push(lockTarget(target.base_url));
    // With `--out` only that folder is healed; `FLOODGATE_OUT` adds one to those under reports/runs.
    const healed = await healLeftOpen(REPORTS, { out, onlyOut: isOutTyped, given });
    process.exitCode = healed.isWhole ? EXIT.pass : EXIT.inconclusive;
    const isIdle = healed.runs.length === 0 && healed.proxies.every(({ did }) => did === "");
    const end = !healed.isWhole
      ? "Something is still broken; see above, and run this again when its cause is gone."
      : isIdle
        ? `Nothing to heal: the journals of ${healed.looked} runs have nothing open.`
        : "Everything that was left open is taken back.";
    printShown(json, {
      document: { schema: "floodgate/healed@1", ...healed },
      lines: [...healed.runs.flatMap(linesOf), ...healed.proxies.map(lineOfProxy), end],
    });
  } finally {
    for (const lock of locks) lock.release();
  }
};

export type ExploreOptions = { for?: number; real?: boolean; limiter: Limiter };
type ChaosOptions = JudgingOptions &
  ExploreOptions & { short?: boolean; list?: boolean; watchdog?: boolean; explore?: boolean; listen: string };

const EXPLORE_S = 600;

/** What `chaos --explore` and `dev explore` search. */
export const exploreWish = ({ for: forS = EXPLORE_S, real = false, limiter }: ExploreOptions): ExploreWish => {
  // Virtual links lead to a limiter in this process, not to Redis.
  if (limiter !== "redis" || real)
    return { forMs: forS * 1_000, links: real ? "real" : "virtual", limiter, mutant: null };
  throw new UsageError("--limiter redis needs real links: expected --real beside it");
};

const EXCLUSIONS: readonly Exclusion[] = [
  ["for real", "!explore", "--for and --real belong to `chaos --explore`"],
  ["explore", "target", "--explore works on the embedded deployment, so it takes no --target"],
  ["explore", "dry-run", "--explore sends nothing to anybody: there is no --dry-run"],
  EMBEDDED_ALONE,
];

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

const chaos = async (options: ChaosOptions, command: Command): Promise<Judging | null> => {
  const [names] = command.processedArgs as [string[]];
  const { target: targetFile, iOwn: owned = [], short = false, limiter } = options;
  if (options.explore === true) {
    if (names.length > 0) throw new UsageError("--explore draws its own faults: leave out the names");
    const wish = exploreWish(options);
    return { play: (common) => runExplore({ ...common, ...wish }) };
  }
  // Without experiments, `--heal` is all there is to do; with them, the run heals first.
  const done = options.watchdog
    ? watchBesideProxy(targetFile, options.listen)
    : options.list
      ? listExperiments(targetFile, options.json)
      : options.heal && names.length === 0 && heal(options, command.getOptionValueSource("out") === "cli");
  if (done) return done.then(() => null);
  const stages = chaosStages({ names, short, limiter });
  return {
    plan: () => stagesPlan({ owned, targetFile, limiter, stages, refusals: chaosRefusals }),
    play: (common) => runChaos({ ...common, names, short, limiter }),
  };
};

export const chaosCommand = (): Command =>
  judgingCommand<ChaosOptions>(
    excluding(new Command("chaos"), EXCLUSIONS)
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
    chaos,
  );

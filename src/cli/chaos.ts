/** `floodgate chaos`: fault experiments, random schedules of faults, and healing of faults that a run left. */
import { dirname } from "node:path";
import { isLoopbackHost } from "../contract/address.ts";
import { plannedEmbedded } from "../deployments/tenants.ts";
import { type Experiment, HOLDS_ALWAYS } from "../faults/experiments.ts";
import { aboutFault, type Component, type Fault, faultKey } from "../faults/fault.ts";
import { startWatchdogServer } from "../faults/watchdog-server.ts";
import { FAULT_STATE_WORDS } from "../history/run-document.ts";
import { wrapped } from "../report/terminal.ts";
import { EXIT } from "../run/exit-codes.ts";
import { type Healed, type HealedRun, healLeftOpen } from "../run/experiments/left-open.ts";
import * as bodies from "../run/experiments/run-chaos.ts";
import { type PreparedTarget, prepareTarget } from "../stages/stage-plan.ts";
import { handOverToken, makeToken } from "../supervision/private-file.ts";
import { UsageError } from "../supervision/user-file.ts";
import { createSecrets } from "../target/secrets.ts";
import { lockTarget, readTargetFile } from "../target/target-file.ts";
import { type JudgingOptions, judgingCommand, LIMITER, type Limiter, REPORTS, stagesPlan } from "./judging-command.ts";
import { EMBEDDED_ALONE, type Exclusion, type OptionRow, seconds } from "./options.ts";
import { printNote, printResult, printShown } from "./printing.ts";
import { untilStopped } from "./serve.ts";

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

/** Undoes what runs left broken; reports each run, then each proxy. Exit code 4: something is still broken. */
const heal = async ({ target: file, iOwn: owned = [], out, json }: JudgingOptions, isOutTyped: boolean) => {
  const given: PreparedTarget[] = file === undefined ? [] : [await prepareTarget(file, owned, NO_LOAD)];
  using locks = new DisposableStack();
  // A run that is still going heals its own faults.
  for (const { target } of given) locks.defer(lockTarget(target.base_url).release);
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
};

const PART: Readonly<Record<Component, string>> = {
  ...{ limiter: "the limiter", keys: "the key service", api: "the API", edge: "the API" },
  service: "the whole service",
};
const FROM: Partial<Record<Fault["by"], string>> = { link: "the way to ", store: "the store of " };

const entry = (label: string, text: string): string[] => wrapped(text, `  ${label.padEnd(9)}`, 11);

const listExperiments = async (targetFile: string | undefined, isJson: boolean | undefined): Promise<void> => {
  const target = targetFile === undefined ? null : (await readTargetFile(targetFile)).target;
  const { limits } = target ?? plannedEmbedded();
  const needsOf = (one: Experiment): string[] =>
    target !== null ? bodies.lackedFor(target, one) : one.store === "redis" ? ["--limiter redis"] : [];
  const all = [...bodies.experimentsFor(target).values()].map((one) => ({ ...one, needs: needsOf(one) }));
  const listed = all.map(({ name, faults, holds, store, requiredStates, needs }) => {
    const [{ component, fault }] = faults;
    const abouts = faults.map((one) => aboutFault(one, limits));
    return {
      ...{ name, link: component, fault, stream: abouts[0]?.stream },
      breaks: abouts.map(({ what }) => what).join("; "),
      at_once: faults.length === 1 ? undefined : faults.map(faultKey),
      needs_limiter: store,
      target_lacks: target === null ? undefined : needs,
      must_hold: [holds, ...HOLDS_ALWAYS],
      must_meet: requiredStates,
    };
  });
  const lines = all.flatMap(({ name, faults, holds, requiredStates = [], needs }) => [
    name,
    ...entry("on", faults.map(({ by, component }) => `${FROM[by] ?? ""}${PART[component]}`).join(" and ")),
    ...entry("breaks", [...new Set(faults.map((one) => aboutFault(one, limits).what))].join("; ")),
    ...(needs.length === 0 ? [] : entry("needs", needs.join(", "))),
    ...entry("must", holds),
    ...(requiredStates.length === 0
      ? []
      : entry("meets", requiredStates.map((state) => FAULT_STATE_WORDS[state]).join("; "))),
  ]);
  printShown(isJson, {
    document: { schema: "floodgate/experiments@1", experiments: listed },
    lines: [...lines, "", "In every experiment:", ...HOLDS_ALWAYS.map((text) => `  - ${text}`)],
  });
};

const WATCHDOG_LISTENS = "127.0.0.1:8475";
const TOKEN_LEAST = 16;

const addressOf = (text: string): { host: string; port: number } => {
  const [, host = "", port = ""] = /^(\[[0-9a-f:]+\]|[^:]+):(\d{1,5})$/i.exec(text) ?? [];
  if (host === "" || Number(port) > 65_535) {
    throw new UsageError(`--listen: expected HOST:PORT such as ${WATCHDOG_LISTENS}, got "${text}"`);
  }
  return { host: host.replace(/^\[|\]$/g, ""), port: Number(port) };
};

const watchBesideProxy = async (targetFile: string, listen: string): Promise<void> => {
  const { target, folder } = await readTargetFile(targetFile);
  if (target.toxiproxy === undefined && target.faults === undefined) {
    throw new UsageError("the target file has neither `toxiproxy` nor `faults`: nothing could be healed");
  }
  const ref = target.watchdog?.token;
  const given = ref === undefined ? null : await createSecrets(folder).read(ref, "watchdog.token");
  const { host, port } = addressOf(listen);
  if (!isLoopbackHost(host) && (given ?? "").length < TOKEN_LEAST) {
    throw new UsageError(
      `--listen ${listen} is not loopback: expected watchdog.token in the target file, of ${TOKEN_LEAST} characters or more, e.g. "env:FLOODGATE_WATCHDOG_TOKEN"`,
    );
  }
  const say = (text: string): void => printNote(`${new Date().toISOString()} ${text}`);
  const token = given ?? makeToken();
  const server = await startWatchdogServer({ target, file: targetFile, host, port, token, say });
  // Runs of the same user on this machine find this token; others need the one that the target file states.
  const handed = given === null ? await handOverToken(server.url, token) : null;
  if (handed !== null) say(`its token is in ${handed.path}`);
  printResult(JSON.stringify({ watchdog: server.url }));
  await untilStopped();
  await server.close();
  await handed?.remove();
};

export type ExploreOptions = { for?: number; real?: boolean; limiter: Limiter };
type ChaosOptions = JudgingOptions &
  ExploreOptions & { short?: boolean; list?: boolean; watchdog?: boolean; explore?: boolean; listen: string };

const EXPLORE_S = 600;

export const exploreWish = ({ for: forS = EXPLORE_S, real = false, limiter }: ExploreOptions): bodies.ExploreWish => {
  // Virtual links lead to a limiter in this process, not to Redis.
  if (limiter !== "redis" || real)
    return { forMs: forS * 1_000, links: real ? "real" : "virtual", limiter, mutant: null };
  throw new UsageError("--limiter redis needs real links: expected --real beside it");
};

// biome-ignore format: a row is a line
const EXCLUSIONS: readonly Exclusion[] = [
  ["watchdog", "!target", "chaos --watchdog needs --target FILE: the proxies and heal commands that it may use stand there"],
  ["for real", "!explore", "--for and --real belong to `chaos --explore`"],
  ["explore", "target", "--explore works on the embedded deployment, so it takes no --target"],
  ["explore", "dry-run", "--explore sends nothing to anybody: there is no --dry-run"],
  EMBEDDED_ALONE,
];

const OPTIONS: readonly OptionRow[] = [
  ["--list", "every experiment: what it breaks and what must hold"],
  ["--explore", "random schedules of faults, in virtual time; what fails is made short"],
  ["--for <time>", "how long to explore (default: 10m)", seconds],
  ["--real", "explore on real links: toxiproxy and the embedded deployment"],
  LIMITER,
  ["--short", "of all, four: each dependency refused, and its replies lost"],
  ["--watchdog", "run beside a remote proxy; heal when the heartbeat of a run stops"],
  ["--listen <host:port>", "where the watchdog listens", undefined, WATCHDOG_LISTENS],
];

const HELP = `
Each experiment: steady state, fault, does it bite, hold, heal, recovery.
Faults are removed whatever happens, also after kill -9 of the runner.

On a deployment of yours: \`toxiproxy\` or \`faults\` in the target file, with
"permits": { "chaos": true }. Other proxies, and toxics that are not ours, are
not touched. A run on a deployment with one of our faults still in it is refused
(exit 5). \`--heal --target FILE\` takes such faults back and says whether the
proxies serve; with experiments that are named, and with other commands, it does
that first. Heal commands are those of FILE as it is now; none is ever read from
a run folder. Without --target only processes and folders of ours are ended and
removed, and the rest is named. \`--out DIR\`: one run folder instead of all.
Exit 4: something could not be healed.

A fault on another host (toxiproxy, or commands) needs a watchdog beside it,
which heals when the heartbeat of the run stops; without one it is refused
(exit 5). There: chaos --watchdog --target FILE --listen HOST:PORT. Here, in the
target file: "watchdog": { "url": "http://HOST:PORT", "token": "env:NAME" }.`;

const ABOUT = "break something under load, see what callers get, heal it, see it recover";
const EXPERIMENT = ["[experiment...]", "names as in --list (default: all that the deployment can have)"] as const;

export const chaosCommand = () =>
  judgingCommand<ChaosOptions>(
    "chaos",
    { about: ABOUT, operands: [EXPERIMENT], options: OPTIONS, exclusions: EXCLUSIONS, help: HELP },
    async (options, command) => {
      const [names] = command.processedArgs as [string[]];
      const { target: targetFile, short = false, limiter } = options;
      if (options.explore === true) {
        if (names.length > 0) throw new UsageError("--explore draws its own faults: leave out the names");
        const wish = exploreWish(options);
        return { play: (common) => bodies.runExplore({ ...common, ...wish }) };
      }
      // `--heal` without experiments only heals; with experiments the run heals first.
      const done = options.watchdog
        ? watchBesideProxy(targetFile as string, options.listen)
        : options.list
          ? listExperiments(targetFile, options.json)
          : options.heal && names.length === 0 && heal(options, command.getOptionValueSource("out") === "cli");
      if (done) return done.then(() => null);
      const stages = bodies.chaosStages({ names, short, limiter });
      return {
        plan: (place) => stagesPlan({ ...place, limiter, stages, refusals: bodies.chaosRefusals }),
        play: (common) => bodies.runChaos({ ...common, names, short, limiter }),
      };
    },
  );

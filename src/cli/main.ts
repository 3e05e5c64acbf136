/** The command line. A user's mistake ends as a sentence and an exit code, never as a stack trace. */
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { Command, CommanderError } from "commander";
import { noSuch } from "../contract/nearest.ts";
import { EXIT, exitCodeOf, worstExit } from "../run/exit-codes.ts";
import { hasEnded, type ProcessId, parentOf, readProc, startTimeOf } from "../supervision/processes.ts";
import { redactor } from "../supervision/redaction.ts";
import { fileProblem } from "../supervision/user-file.ts";
import { refuseRepeats } from "./options.ts";
import { isCiJob, isOn, printNote, printResult } from "./printing.ts";
import { takeStated } from "./stated-options.ts";

/** The file that exports `NAMECommand`, and the two examples in its help, as typed after `npx floodgate`. */
type Entry = readonly [load: () => Promise<Readonly<Record<string, unknown>>>, first: string, second: string];

/** Files are imported on demand: a run starts `serve` three times, which must not load what only `verify` needs. */
// biome-ignore format: a row is a line
const COMMANDS: Readonly<Record<string, Entry>> = {
  run: [() => import("./load.ts"), "run smoke", "run nightly --target staging.json --dry-run"],
  load: [() => import("./load.ts"), "load chat-past-capacity --duration 10s", "load steady-mix --target staging.json --profile access.log.gz"],
  verify: [() => import("./verify.ts"), "verify --target staging.json", "verify --only exchange-mints"],
  chaos: [() => import("./chaos.ts"), "chaos limiter-refused keys-refused", "chaos --heal --target staging.json"],
  doctor: [() => import("./doctor.ts"), "doctor --target staging.json", "doctor --calibrate"],
  init: [() => import("./doctor.ts"), "init --target https://maps.example --i-own maps.example", "init --target 127.0.0.1:8080 --out local.json"],
  gate: [() => import("./gate.ts"), "gate --base base.json --head head.json", "gate --before RUN-A --after RUN-B"],
  capacity: [() => import("./capacity.ts"), "capacity --target staging.json --slo 'refusals<=1%,p99<=800ms'", "capacity --target staging.json --demand launch.json --replicas 2,3,4"],
  trends: [() => import("./trends.ts"), "trends add reports/latest --dir nights", "trends show --dir nights"],
  report: [() => import("./report.ts"), "report reports/latest", "report reports/runs/A reports/runs/B"],
  serve: [() => import("./serve.ts"), "serve --write-target target.json", "serve --slots 24 --service-ms 200 --write-target target.json"],
  demo: [() => import("./demo.ts"), "demo", "demo never-sheds --page never-sheds.html"],
  explain: [() => import("./explain.ts"), "explain sheds-above-the-cap/chat-past-capacity", "explain verify/exchange-mints"],
  completion: [() => import("./explain.ts"), "completion bash > ~/.floodgate-completion", "completion fish > ~/.config/fish/completions/floodgate.fish"],
  dev: [() => import("./dev.ts"), "dev tools", "dev mutants never-sheds"],
};

const opened = async (name: string): Promise<Command> => {
  const [load, ...examples] = COMMANDS[name] as Entry;
  const command = (await load())[`${name}Command`] as (all: typeof commandsFor) => Command;
  const shown = examples.map((one) => `  npx floodgate ${one}`).join("\n");
  return command(commandsFor).addHelpText("after", `\nExamples:\n${shown}`);
};

/** Returns the command of this name alone, because loading all takes long; returns all if none has this name. */
export const commandsFor = (name = ""): Promise<Command[]> =>
  Promise.all((Object.hasOwn(COMMANDS, name) ? [name] : Object.keys(COMMANDS)).map(opened));

const EVERY_MS = 500;
/** The number of ancestors searched for npm; npm, its shell and the launcher make three. */
const NPM_GENERATIONS = 5;
const GENERATIONS_MAX = 64;

const endsWithShell = ({ FLOODGATE_END_WITH_PARENT: asked, ...env }: NodeJS.ProcessEnv): boolean =>
  asked === undefined ? isCiJob(env) : isOn(asked);

const launchers = (withShell: boolean): ProcessId[] => {
  const above: ProcessId[] = [];
  for (let pid = parentOf(process.pid); pid > 1 && above.length < GENERATIONS_MAX; pid = parentOf(pid)) {
    above.push({ pid, start: startTimeOf(pid) ?? "" });
  }
  if (withShell && endsWithShell(process.env)) return above;
  // `readProc` reads bytes as latin1, so the path is written in the same way.
  const npm = Buffer.from(process.env.npm_execpath ?? "").toString("latin1");
  // npm replaces its command line with a title such as "npm start".
  const isNpm = ({ pid }: ProcessId): boolean => {
    const command = readProc(`/proc/${pid}/cmdline`) ?? "";
    return /^np[mx]\b/.test(command) || command.includes(npm);
  };
  const at = npm === "" ? -1 : above.slice(0, NPM_GENERATIONS).findIndex(isNpm);
  return above.slice(0, at + 1);
};

/**
 * Sends SIGTERM to this process when its launcher is gone, because nobody waits for it any more. A launcher is:
 *
 * - the older Node that started this one (its channel closes);
 * - npm and its shell: npm passes SIGTERM to that shell only, and a kill -9 reaches npm only;
 * - in a CI job, every ancestor: a cancelled job signals only the shell of its step, and a clean-up would later kill a
 *   run that still has faults to heal. Elsewhere a shell may leave a run behind on purpose (`nohup`), so there
 *   `FLOODGATE_END_WITH_PARENT=1` asks for it; `=0` turns it off in a CI job.
 *
 * Ancestors are looked up on Linux only; elsewhere only the channel is watched. `withShell` is false for a command that
 * may outlive its shell, such as `serve`.
 */
const endWithLauncher = (withShell: boolean): void => {
  const stop = (): void => void process.kill(process.pid, "SIGTERM");
  if (process.connected) {
    process.on("disconnect", stop);
    // An open channel must not keep a finished run alive.
    process.channel?.unref();
  }
  const above = launchers(withShell);
  if (above.length === 0) return;
  const timer = setInterval(() => {
    if (!above.some(hasEnded)) return;
    clearInterval(timer);
    stop();
  }, EVERY_MS);
  timer.unref();
};

const EXAMPLES = `
Examples:
  npx floodgate demo                  planted defects, found in seconds
  npx floodgate run smoke             on the reference platform, started here
  npx floodgate serve --write-target target.json          something to try on
  npx floodgate init --target https://maps.example --i-own maps.example
  npx floodgate doctor --target target.json --i-own maps.example
  npx floodgate run nightly --target target.json --i-own maps.example
  npx floodgate capacity --target target.json --slo 'refusals<=1%'
  npx floodgate gate --base old.json --head new.json
  npx floodgate chaos limiter-refused
  npx floodgate explain sheds-above-the-cap

Lists of what there is: load (scenarios), chaos --list (experiments),
verify --list (rules), explain (claims, measurements), demo --list (planted
defects). Each has --help.

An option of a command that takes a target file may stand in the environment
(FLOODGATE_TARGET for --target) or in floodgate.config.json ("target") as well.

Exit codes: 0 pass, 1 fail, 2 usage or configuration, 3 target or tool not
reachable, 4 inconclusive, 5 refused by the safety guard, 130/143 stopped by a
signal.`;

const about = (): { version: string } =>
  JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));

const configure = (command: Command, above: readonly string[] = []): void => {
  const names = [...above, command.name()];
  command.exitOverride();
  // `serve` judges nothing, and scripts put options of their own behind a line that has defaults (`npm run serve -- …`).
  if (command.name() !== "serve") refuseRepeats(command);
  // Our writers mask and clean, because a mistyped option may hold a key or an escape sequence.
  command.configureOutput({ writeOut: printResult, writeErr: printNote });
  command.showHelpAfterError(`See: npx ${names.join(" ")} --help`);
  // Only names are listed, to leave room for the descriptions.
  const helpWidth = Math.min(100, process.stderr.columns || 80);
  command.configureHelp({ helpWidth, subcommandTerm: (child) => child.name() });
  for (const child of command.commands) configure(child, names);
};

const sayWhy = (thrown: unknown): number => {
  const { message, stack = "" } = thrown instanceof Error ? thrown : new Error(String(thrown));
  const problem = fileProblem(thrown);
  // The system's own message does not say what helps.
  const isSystems = problem !== null && message.startsWith(problem.code);
  const { path: at } = thrown as NodeJS.ErrnoException;
  const isTemporary = isSystems && at?.startsWith(tmpdir()) === true;
  const path = at === undefined ? "" : `${at}: `;
  if (isSystems && problem.isLackOfRoom)
    printNote(`floodgate: ${path}${problem.sentence}; make room, or name another place with --out`);
  else if (isTemporary)
    printNote(
      `floodgate: TMPDIR ${tmpdir()}: ${problem.sentence}; set TMPDIR to a folder that is there and can be written`,
    );
  else printNote(`floodgate: ${message}`);
  if (process.env.FLOODGATE_DEBUG !== undefined) printNote(stack);
  return isTemporary && !problem.isLackOfRoom ? EXIT.usage : exitCodeOf(thrown);
};

/** Handles a closed stdout or stderr, a full disk, and errors thrown outside of any command. */
const listenForTrouble = (): void => {
  // `floodgate … | head` or a closed terminal must not end a run in the middle of a fault.
  process.stderr.on("error", () => undefined);
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE" || error.code === "EIO") return;
    // The disk behind `> file` is full, so the result is lost.
    printNote(`floodgate: the result could not be printed: ${error.message}`);
    process.exitCode = worstExit(Number(process.exitCode ?? EXIT.pass), EXIT.inconclusive);
  });
  // Without a listener, a write beyond `ulimit -f` ends the process, perhaps in the middle of a fault.
  process.on("SIGXFSZ", () => undefined);
  process.on("uncaughtException", (error) => {
    // A run has a listener of its own, which heals and reports.
    if (process.listenerCount("uncaughtException") > 1) return;
    process.exitCode = sayWhy(error);
    process.exit();
  });
  redactor.listenForUnmaskable((what) =>
    printNote(`warning: ${what} has a part that is too short to be masked: where a server repeats it, reports show it`),
  );
};

/** Says what a user most likely meant by words that commander refuses; commander prints a sentence of its own before. */
const meantBy = async (code: string, [first = "", ...rest]: readonly string[]): Promise<string | null> => {
  if (code === "commander.unknownCommand" && (await import("../run/suites/suites.ts")).SUITES.has(first))
    return `${first} is a suite: npx floodgate run ${first}`;
  if (code === "commander.unknownOption" && first.startsWith("-"))
    return "Options stand after the command: npx floodgate run --target FILE";
  const [about] = rest;
  if (code === "commander.help" && first === "help" && about !== undefined)
    return noSuch("command", about, Object.keys(COMMANDS), "the list above has all");
  const file = rest.find((word) => word.endsWith(".json"));
  if (code === "commander.excessArguments" && file !== undefined)
    return `A target file is named by its option: --target ${file}`;
  return null;
};

export const main = async (argv: string[]): Promise<void> => {
  listenForTrouble();
  try {
    const root = new Command("floodgate")
      .version(about().version, "--version")
      .description(
        "Load testing and chaos for the Map Inference Platform API: does it decide right, shed right, how much can it carry?",
      )
      .addHelpText("after", EXAMPLES);
    for (const command of await commandsFor(argv[0])) root.addCommand(command);
    configure(root);
    root.hook("preAction", async (_, command) => {
      await takeStated(command, commandsFor);
      // A server may outlive the shell that started it.
      const serves = command.name() === "serve" || command.opts<{ watchdog?: boolean }>().watchdog === true;
      endWithLauncher(!serves);
    });
    await root.parseAsync(argv, { from: "user" });
  } catch (error) {
    // Commander has already printed its sentence; help and version end with 0.
    const isCommanders = error instanceof CommanderError;
    const meant = isCommanders ? await meantBy(error.code, argv) : null;
    if (meant !== null) printNote(meant);
    process.exitCode = isCommanders ? (error.exitCode === 0 ? EXIT.pass : EXIT.usage) : sayWhy(error);
  }
};

/** The command line. Errors end here: a user's mistake is a sentence and an exit code, never a stack. */
import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { EXIT, exitCodeOf, worstExit } from "../run/exit-codes.ts";
import { redactor } from "../supervision/redaction.ts";
import { fileProblem } from "../supervision/user-file.ts";
import { commandsFor } from "./commands.ts";
import { endWithLauncher } from "./end-with-launcher.ts";
import { printNote, printResult } from "./printing/output.ts";

const EXAMPLES = `
Examples:
  npx floodgate run smoke             on the reference platform, started here
  npx floodgate serve --write-target target.json          something to try on
  npx floodgate init --target https://maps.example --i-own maps.example
  npx floodgate doctor --target target.json --i-own maps.example
  npx floodgate run nightly --target target.json --i-own maps.example
  npx floodgate capacity --target target.json --slo 'refusals<=1%'
  npx floodgate gate --base old.json --head new.json
  npx floodgate chaos limiter-refused
  npx floodgate explain sheds-above-the-cap

Exit codes: 0 pass, 1 fail, 2 usage or configuration, 3 target or tool not
reachable, 4 inconclusive, 5 refused by the safety guard, 130/143 stopped by a
signal.`;

const version = (): string => {
  const about = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(about) as { version: string }).version;
};

const configure = (command: Command, above: readonly string[] = []): void => {
  const names = [...above, command.name()];
  command.exitOverride();
  // A mistyped option may hold a key or an escape sequence.
  command.configureOutput({ writeOut: printResult, writeErr: printNote });
  command.showHelpAfterError(`See: npx ${names.join(" ")} --help`);
  // Names without options: otherwise no room is left for the descriptions.
  const helpWidth = Math.min(100, process.stderr.columns || 80);
  command.configureHelp({ helpWidth, subcommandTerm: (child) => child.name() });
  for (const child of command.commands) configure(child, names);
};

const sayWhy = (thrown: unknown): number => {
  const { message, stack = "" } = thrown instanceof Error ? thrown : new Error(String(thrown));
  const problem = fileProblem(thrown);
  // The system's own sentence says neither what it means nor what helps.
  const isNoRoom = problem?.isLackOfRoom === true && message.startsWith(problem.code);
  printNote(`floodgate: ${isNoRoom ? `${problem.sentence}; make room, or name another place with --out` : message}`);
  if (process.env.FLOODGATE_DEBUG !== undefined) printNote(stack);
  return exitCodeOf(thrown);
};

/** Handles a closed stdout or stderr, a full disk, and errors thrown outside of any command. */
const listenForTrouble = (): void => {
  // `floodgate … | head` or a closed terminal must not end a run in the middle of a fault.
  process.stderr.on("error", () => undefined);
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE" || error.code === "EIO") return;
    // A full disk behind `> file`: the result is lost.
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

export const main = async (argv: string[]): Promise<void> => {
  listenForTrouble();
  try {
    const root = new Command("floodgate")
      .version(version(), "--version")
      .description(
        "Load testing and chaos for the Map Inference Platform API: does it decide right, shed right, how much can it carry?",
      )
      .addHelpText("after", EXAMPLES);
    for (const command of await commandsFor(argv[0])) root.addCommand(command);
    configure(root);
    root.hook("preAction", (_, command) => {
      // A server outlives the shell that started it.
      const serves = command.name() === "serve" || command.opts<{ watchdog?: boolean }>().watchdog === true;
      endWithLauncher(!serves);
    });
    await root.parseAsync(argv, { from: "user" });
  } catch (error) {
    // Commander has already printed its sentence; help and version end with 0.
    const isCommanders = error instanceof CommanderError;
    process.exitCode = isCommanders ? (error.exitCode === 0 ? EXIT.pass : EXIT.usage) : sayWhy(error);
  }
};

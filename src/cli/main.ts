/** The table of commands. Errors end here: a user's mistake is a sentence and an exit code, never a stack. */
import { Command, CommanderError } from "commander";
import { SecretError } from "../drivers/secrets.ts";
import { TargetFileError } from "../drivers/target-file.ts";
import { RoleOptionsError } from "../platform/start-role.ts";
import { TargetBusyError } from "../run/lock.ts";
import { redact } from "../run/redaction.ts";
import { ToolError } from "../run/tools.ts";
import { GuardError } from "../run/verify-target.ts";
import { TargetUnreachableError, UnknownRuleError } from "../verify/run-verify.ts";
import { devCommand } from "./dev.ts";
import { CommandError, EXIT } from "./exit-codes.ts";
import { reportCommand } from "./report.ts";
import { runCommand } from "./run.ts";
import { serveCommand } from "./serve.ts";
import { verifyCommand } from "./verify.ts";

const program = (): Command => {
  const root = new Command("floodgate")
    .description(
      "Load testing and chaos for the Map Inference Platform API: does it decide right, shed right, how much can it carry?",
    )
    .addHelpText(
      "after",
      "\nExamples:\n  npx floodgate run smoke            the main job, against the embedded deployment\n  npx floodgate serve --tenants 4 --write-target target.json\n\nExit codes: 0 pass, 1 fail, 2 usage, 3 not reachable, 4 inconclusive, 5 refused by\nthe safety guard, 130/143 stopped by a signal.",
    );
  for (const command of [runCommand(), verifyCommand(), reportCommand(), serveCommand(), devCommand()])
    root.addCommand(command);
  return root;
};

/** Mistakes of the user, by the error that says so. */
const USAGE = [TargetBusyError, RoleOptionsError, SecretError, TargetFileError, UnknownRuleError];

const exitCodeOf = (error: unknown): number => {
  if (error instanceof CommandError) return error.exitCode;
  if (error instanceof GuardError) return EXIT.guarded;
  if (error instanceof ToolError || error instanceof TargetUnreachableError) return EXIT.unreachable;
  return USAGE.some((kind) => error instanceof kind) ? EXIT.usage : EXIT.fail;
};

const exitOverride = (command: Command): void => {
  command.exitOverride();
  command.configureHelp({ helpWidth: Math.min(100, process.stderr.columns ?? 80) });
  for (const child of command.commands) exitOverride(child);
};

export const main = async (argv: string[]): Promise<void> => {
  // `floodgate … | head`: who no longer listens is no error.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") throw error;
    });
  }
  const root = program();
  exitOverride(root);
  try {
    await root.parseAsync(argv, { from: "user" });
  } catch (error) {
    if (error instanceof CommanderError) {
      // Commander has printed its sentence; help and version are no mistakes.
      process.exitCode = error.exitCode === 0 ? EXIT.pass : EXIT.usage;
      return;
    }
    const message = redact(error instanceof Error ? error.message : String(error));
    process.stderr.write(`floodgate: ${message}\n`);
    const expected = exitCodeOf(error);
    if (expected === EXIT.fail && process.env.FLOODGATE_DEBUG !== undefined && error instanceof Error) {
      process.stderr.write(`${redact(error.stack ?? "")}\n`);
    }
    process.exitCode = expected;
  }
};

/** The end of a recorded run on a terminal: the verdict on stderr, with `--json` the document on stdout, the exit code. */
import { terminalText } from "../../report/terminal.ts";
import { EXIT } from "../../run/exit-codes.ts";
import type { RunResult } from "../../run/recorded-run.ts";

export const showRun = ({ document, folder }: RunResult, { json }: { json?: boolean }): void => {
  const colour = process.stderr.isTTY === true && process.env.NO_COLOR === undefined;
  process.stderr.write(`${terminalText(document, { folder: folder.path, colour })}\n`);
  if (json === true) process.stdout.write(`${JSON.stringify(document, null, 2)}\n`);
  const unmet = document.claims.find(({ id }) => id === "run/completed");
  const isMistake = document.exit_code === EXIT.unreachable || document.exit_code === EXIT.usage;
  if (isMistake && unmet !== undefined) process.stderr.write(`floodgate: ${unmet.reason}\n`);
  process.exitCode = document.exit_code;
};

/** Where npm or the launcher is gone, nobody waits for the run any more: it is asked to stop. */
export const stopWithLauncher = (whenNpmIsGone: (gone: () => void) => void): void => {
  const stop = (): void => void process.kill(process.pid, "SIGTERM");
  if (process.connected) {
    process.on("disconnect", stop);
    // Listening to the launcher must not keep a finished run alive.
    process.channel?.unref();
  }
  whenNpmIsGone(stop);
};

/** The end of a recorded run on a terminal: the verdict on stderr, with `--json` the document on stdout, the exit code. */

import { terminalText } from "../../report/terminal.ts";
import { EXIT } from "../../run/exit-codes.ts";
import type { RunResult } from "../../run/recorded-run.ts";
import { isTerminal, printJson, printNote, printPainted } from "./output.ts";

export const showRun = ({ document, folder }: RunResult, { json }: { json?: boolean }): void => {
  const colour = isTerminal();
  printPainted(`${terminalText(document, { folder: folder.path, colour })}\n`);
  if (json === true) printJson(document);
  const unmet = document.claims.find(({ id }) => id === "run/completed");
  const isMistake = document.exit_code === EXIT.unreachable || document.exit_code === EXIT.usage;
  if (isMistake && unmet !== undefined) printNote(`floodgate: ${unmet.reason}`);
  process.exitCode = document.exit_code;
};

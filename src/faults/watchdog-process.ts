/** Entry of the watchdog's process: `node watchdog-process.ts JOURNAL MARK`, started by supervision/watchdog.ts. */
import { fileURLToPath } from "node:url";
import { guardRunner } from "../supervision/watchdog.ts";
import { UNDO_PORTS } from "./healing.ts";

export const WATCHDOG_PROCESS: string = fileURLToPath(import.meta.url);

if (process.argv[1] === WATCHDOG_PROCESS) {
  guardRunner(process.argv[2] ?? "", process.argv[3] ?? "", UNDO_PORTS);
}

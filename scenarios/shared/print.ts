/** One line for the runner; k6's console goes to a file that the runner reads. */
import type { Printed, PrintedFault } from "../../src/workload/handover.ts";

// k6 has this one global of a browser, and its typings leave it out.
declare const console: { log(text: string): void };

export const print = (line: Printed | PrintedFault): void => console.log(JSON.stringify(line));

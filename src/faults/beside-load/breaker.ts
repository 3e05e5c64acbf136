/** The port of every way to break something: inject, does it show, heal, and how to heal it without us. */

import type { Part } from "../../deployments/part.ts";
import { birthOf } from "../../supervision/processes.ts";
import type { Undo } from "../../supervision/undo.ts";
import type { ExperimentSteps } from "../experiment.ts";
import type { FaultStream } from "../fault.ts";

export type Breaker = Pick<ExperimentSteps, "inject" | "heal"> & {
  undo: Undo;
  stream: FaultStream;
  /** Whether the fault shows where it was put in; `null` where that cannot be seen from here: then callers have to see it. */
  showsAtPart: (() => Promise<boolean>) | null;
  injectMs: number;
  effectMs: number;
  healMs: number;
  /** For a report. */
  notes: readonly string[];
};

/** Of what is done to a child of this run, which dies with the run: a stopped one has to be woken for that. */
export const wakeUp = (part: Part): Undo => {
  const pid = part.pid();
  return { how: "signal", pid, start: birthOf(pid), signal: "SIGCONT" };
};

/** What was asked for cannot be done here; the message says what is missing. */
export class NoWayError extends Error {
  override name = "NoWayError";
}

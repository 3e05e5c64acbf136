/**
 * A small process of its own that outlives the runner by a few seconds at most: it holds the other end of a pipe, and
 * when the pipe closes without a "bye" (kill -9, a crash, a lost terminal) it takes back what the journal has open:
 * faults first and the load at the same time, then what carries the links, then whatever carries the run's mark.
 *
 * Its process is chaos/watchdog-process.ts, started by start-watchdog.ts in a session of its own.
 */
import { rmSync } from "node:fs";
import type { TakeBackProxy } from "./carry-out.ts";
import { openEffects, readJournal } from "./journal.ts";
import { markedProcesses, signalGroup, signalProcess } from "./processes.ts";
import { STOP_SIGNALS } from "./stop-signals.ts";
import { takeBackAll } from "./take-back.ts";
import { pause } from "./waiting.ts";

/** The whole rescue. Faults get a little over half of it; what hangs then is cut off, and processes are ended hard. */
const RESCUE_MS = 8_000;
const HEAL_MS = 4_500;
const CALL_MS = 700;
const GRACE_MS = 1_000;

const killMarked = async (mark: string): Promise<void> => {
  // Again until there are none: one of them may just have started another.
  for (
    let left = markedProcesses(mark), tries = 0;
    left.length > 0 && tries < 20;
    left = markedProcesses(mark), tries++
  ) {
    for (const stray of left) signalProcess(stray, "SIGKILL");
    await pause(25);
  }
};

const rescue = async (journalPath: string, mark: string, takeBackProxy: TakeBackProxy): Promise<void> => {
  await takeBackAll(journalPath, "watchdog", {
    takeBackProxy,
    signal: AbortSignal.timeout(HEAL_MS),
    callMs: CALL_MS,
    graceMs: GRACE_MS,
  });
  await killMarked(mark);
};

/** When time is up: no more manners. */
const cutOff = (journalPath: string, mark: string): void => {
  try {
    for (const { undo } of openEffects(readJournal(journalPath).entries)) {
      if (undo.how === "end-process") signalGroup(undo, "SIGKILL");
      if (undo.how === "remove-folder") rmSync(undo.path, { recursive: true, force: true });
    }
  } catch {
    // No journal: the marks are all there is.
  }
  for (const stray of markedProcesses(mark)) signalProcess(stray, "SIGKILL");
  process.exit(1);
};

/** Called once, by a process that exists for this alone: it lives until the runner says "bye" or its pipe closes. */
export const guardRunner = (journalPath: string, mark: string, takeBackProxy: TakeBackProxy): void => {
  let begun = false;
  const begin = (): void => {
    if (begun) return;
    begun = true;
    setTimeout(() => cutOff(journalPath, mark), RESCUE_MS);
    rescue(journalPath, mark, takeBackProxy).then(
      () => process.exit(0),
      () => cutOff(journalPath, mark),
    );
  };

  // What ends the runner (a closed terminal, a stopped job) must not end this one first.
  for (const signal of STOP_SIGNALS) process.on(signal, () => {});
  let heard = "";
  process.stdin.on("data", (chunk: Buffer) => {
    heard += chunk.toString("latin1");
    if (heard.includes("bye\n")) process.exit(0);
  });
  for (const event of ["end", "close", "error"] as const) process.stdin.on(event, begin);
  process.stdout.on("error", () => {});
  process.stdout.write("ready\n");
};

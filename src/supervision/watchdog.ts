/**
 * A small process of its own that outlives the runner by a few seconds at most. It holds the other end of a pipe: through it the
 * run hands over what each side effect takes to be taken back, before it is done. When the pipe closes without a "bye"
 * (kill -9, a crash, a lost terminal) it takes back what is open: faults first and the load at the same time, then what
 * carries the links, then whatever carries the run's mark. It executes nothing that it read from a disk; the journal is only
 * added to.
 *
 * Its process is faults/watchdog-process.ts, started by start-watchdog.ts in a session of its own.
 */
import { rmSync } from "node:fs";
import type { TakeBack } from "./carry-out.ts";
import type { Effect } from "./journal.ts";
import { killMarked, markedProcesses, signalGroup, signalProcess } from "./processes.ts";
import { STOP_SIGNALS } from "./stop-signals.ts";
import { type Notes, notesIn, takeBackAll } from "./take-back.ts";

/** The whole rescue. Faults get a little over half of it; what hangs then is cut off, and processes are ended hard. */
const RESCUE_MS = 8_000;
const HEAL_MS = 4_500;
const CALL_MS = 700;
const GRACE_MS = 1_000;
const AGAIN_MS = 250;

/** A line from the runner: the environment for heal commands, a side effect that begins or that is over. */
export type WatchdogMessage = { env: NodeJS.ProcessEnv } | { keep: Effect } | { forget: string };

/** Its last line when all is in order. */
export const BYE = "bye";

type Held = { env: NodeJS.ProcessEnv; effects: Map<string, Effect> };

const openNotes = (journalPath: string): Notes | null => {
  try {
    return notesIn(journalPath, "watchdog");
  } catch {
    // The folder is gone: what was done to others is taken back all the same.
    return null;
  }
};

const rescue = async (journalPath: string, mark: string, takeBack: TakeBack, { env, effects }: Held): Promise<void> => {
  // What nobody can take back (a session, a key) stays open, for people to see. A fault of a part of the run's own ends with the part.
  const isOver = ({ kind, undo }: Effect): boolean => undo.how !== "nothing" || kind === "child" || kind === "fault";
  const open = [...effects.values()].reverse().filter(isOver);
  const notes = open.length === 0 ? null : openNotes(journalPath);
  const signal = AbortSignal.timeout(HEAL_MS);
  await takeBackAll(open, notes, { takeBack, signal, env, againMs: AGAIN_MS, callMs: CALL_MS, graceMs: GRACE_MS });
  notes?.close();
  await killMarked(mark);
};

/** When time is up: no more manners. */
const cutOff = (mark: string, { effects }: Held): void => {
  for (const { undo } of effects.values()) {
    try {
      if (undo.how === "end-process") signalGroup(undo, "SIGKILL");
      if (undo.how === "remove-folder" || undo.how === "remove-lock") {
        rmSync(undo.path, { recursive: true, force: true });
      }
    } catch {
      // The others have their turn.
    }
  }
  for (const stray of markedProcesses(mark)) signalProcess(stray, "SIGKILL");
  process.exit(1);
};

/** Called once, by a process that exists for this alone: it lives until the runner says "bye" or its pipe closes. */
export const guardRunner = (journalPath: string, mark: string, takeBack: TakeBack): void => {
  const held: Held = { env: process.env, effects: new Map() };
  let begun = false;
  const begin = (): void => {
    if (begun) return;
    begun = true;
    setTimeout(() => cutOff(mark, held), RESCUE_MS);
    rescue(journalPath, mark, takeBack, held).then(
      () => process.exit(0),
      () => cutOff(mark, held),
    );
  };
  const hear = (line: string): void => {
    if (line === BYE) process.exit(0);
    const message = JSON.parse(line) as WatchdogMessage;
    if ("env" in message) held.env = message.env;
    else if ("keep" in message) held.effects.set(message.keep.id, message.keep);
    else held.effects.delete(message.forget);
  };

  // What ends the runner (a closed terminal, a stopped job) must not end this one first.
  for (const signal of STOP_SIGNALS) process.on(signal, () => {});
  let heard = "";
  process.stdin.setEncoding("utf8").on("data", (text: string) => {
    const lines = (heard + text).split("\n");
    heard = lines.pop() ?? "";
    for (const line of lines) hear(line);
  });
  for (const event of ["end", "close", "error"] as const) process.stdin.on(event, begin);
  process.stdout.on("error", () => {});
  process.stdout.write("ready\n");
};

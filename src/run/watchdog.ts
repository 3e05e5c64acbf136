/**
 * A small process of its own that outlives the runner by a few seconds at most: it holds the other end of a pipe, and
 * when the pipe closes without a "bye" (kill -9, a crash, a lost terminal) it takes back what the journal has open:
 * faults first and the load at the same time, then what carries the links, then whatever carries the run's mark.
 *
 * Run as `node watchdog.ts JOURNAL MARK`, started by watchdog-start.ts in a session of its own.
 */
import { closeSync, existsSync, openSync, readFileSync, writeSync } from "node:fs";
import { appendEntry, type OpenEffect, openEffects, readJournal } from "./journal.ts";
import { endGroup, markedProcesses, signalProcess } from "./processes.ts";
import { Redactor } from "./redaction.ts";
import { carryOut } from "./undoing.ts";

/** The whole rescue. Faults get a little over half of it; what hangs then is cut off, and processes are ended hard. */
const RESCUE_MS = 8_000;
const HEAL_MS = 4_500;
const CALL_MS = 700;
const GRACE_MS = 1_000;

const journalPath = process.argv[2] ?? "";
const mark = process.argv[3] ?? "";

/** A handle for notes in the journal, after the line that the runner may have left unfinished. */
const openForNotes = (): number => {
  const torn = !readFileSync(journalPath, "utf8").endsWith("\n");
  const descriptor = openSync(journalPath, "a", 0o600);
  if (torn) writeSync(descriptor, "\n");
  return descriptor;
};

const rescue = async (): Promise<void> => {
  const effects = existsSync(journalPath) ? openEffects(readJournal(journalPath).entries) : [];
  const notes = effects.length > 0 ? openForNotes() : null;
  const redactor = new Redactor();
  const limits = { signal: AbortSignal.timeout(HEAL_MS), callMs: CALL_MS, graceMs: GRACE_MS };

  const takeBack = async ({ id, kind, name, undo }: OpenEffect): Promise<void> => {
    // What nobody can take back (a session, a key) stays open in the journal, for people.
    if (undo.how === "nothing" && kind !== "child") return;
    const write = (phase: "undone" | "about", detail: string): void => {
      if (notes !== null) appendEntry(notes, { id, kind, name, phase, detail, undo, by: "watchdog" }, redactor);
    };
    try {
      write("undone", await carryOut(undo, limits));
    } catch (error) {
      // Open again, so that `chaos --heal` finds it.
      write("about", `not taken back: ${(error as Error).message}`);
    }
  };
  const isLast = ({ undo }: OpenEffect): boolean => undo.how === "end-process" && undo.end_last;
  await Promise.all(effects.filter((effect) => !isLast(effect)).map(takeBack));
  await Promise.all(effects.filter(isLast).map(takeBack));
  for (const stray of markedProcesses(mark)) signalProcess(stray, "SIGKILL");
  if (notes !== null) closeSync(notes);
};

/** When time is up: no more manners. */
const cutOff = (): void => {
  try {
    for (const { undo } of openEffects(readJournal(journalPath).entries))
      if (undo.how === "end-process") void endGroup(undo, 0, 0);
  } catch {
    // No journal: the marks are all there is.
  }
  for (const stray of markedProcesses(mark)) signalProcess(stray, "SIGKILL");
  process.exit(1);
};

let begun = false;
const begin = (): void => {
  if (begun) return;
  begun = true;
  setTimeout(cutOff, RESCUE_MS);
  rescue().then(
    () => process.exit(0),
    () => cutOff(),
  );
};

// What ends the runner (a closed terminal, a stopped job) must not end this one first.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
let heard = "";
process.stdin.on("data", (chunk: Buffer) => {
  heard += chunk.toString("latin1");
  if (heard.includes("bye\n")) process.exit(0);
});
for (const event of ["end", "close", "error"] as const) process.stdin.on(event, begin);
process.stdout.on("error", () => {});
process.stdout.write("ready\n");

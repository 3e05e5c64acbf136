/**
 * Takes back all that a journal has open, after the run that wrote it: what the watchdog does at once and `chaos --heal`
 * later. Each result is noted in the same journal.
 */
import { closeSync, existsSync, openSync, readFileSync, writeSync } from "node:fs";
import { carryOut, type UndoLimits } from "./carry-out.ts";
import { appendEntry, type JournalEntry, type OpenEffect, openEffects, RUN_ITSELF, readJournal } from "./journal.ts";
import { isAlive, type ProcessId } from "./processes.ts";
import { Redactor } from "./redaction.ts";

/** `did`: what was done, or `null` with the `trouble`; the effect then stays open. */
export type TakenBack = { kind: string; name: string; did: string | null; trouble: string | null };

/** The run that wrote the journal, if it has not ended in order. */
export const runOf = (entries: JournalEntry[]): ProcessId | null => {
  const open = openEffects(entries).find(({ name }) => name === RUN_ITSELF);
  const detail = entries.find(({ id }) => id === open?.id)?.detail ?? "";
  const [pid, start] = detail.split(" ");
  return start === undefined ? null : { pid: Number(pid), start };
};

/** A handle for notes, after the line that the run may have left unfinished. */
const openForNotes = (path: string): number => {
  const torn = !readFileSync(path, "utf8").endsWith("\n");
  const descriptor = openSync(path, "a", 0o600);
  if (torn) writeSync(descriptor, "\n");
  return descriptor;
};

/** Faults and load at the same time, then what carries the links and what they wrote. Never rejects because of one effect. */
export const takeBackAll = async (path: string, by: "watchdog" | "heal", limits: UndoLimits): Promise<TakenBack[]> => {
  if (!existsSync(path)) return [];
  // What nobody can take back (a session, a key) stays open, for people to see.
  const effects = openEffects(readJournal(path).entries).filter(
    ({ kind, undo }) => undo.how !== "nothing" || kind === "child",
  );
  if (effects.length === 0) return [];
  const notes = openForNotes(path);
  const redactor = new Redactor();

  const takeBack = async ({ id, kind, name, undo }: OpenEffect): Promise<TakenBack> => {
    const note = (phase: "undone" | "about", detail: string): void =>
      appendEntry(notes, { id, kind, name, phase, detail, undo, by }, redactor);
    try {
      const did = await carryOut(undo, limits);
      note("undone", did);
      return { kind, name, did, trouble: null };
    } catch (error) {
      const trouble = (error as Error).message;
      note("about", `not taken back: ${trouble}`);
      return { kind, name, did: null, trouble };
    }
  };
  const isLast = ({ undo }: OpenEffect): boolean =>
    undo.how === "remove-folder" || (undo.how === "end-process" && undo.end_last);
  try {
    const first = await Promise.all(effects.filter((effect) => !isLast(effect)).map(takeBack));
    return [...first, ...(await Promise.all(effects.filter(isLast).map(takeBack)))];
  } finally {
    closeSync(notes);
  }
};

/** For `chaos --heal`. Throws a sentence while the run that wrote the journal still lives: it heals by itself. */
export const healAfter = async (path: string, limits: UndoLimits): Promise<TakenBack[]> => {
  const run = existsSync(path) ? runOf(readJournal(path).entries) : null;
  if (run !== null && isAlive(run))
    throw new Error(
      `the run of ${path} is still going (process ${run.pid}) and heals its own faults; stop it with \`kill ${run.pid}\``,
    );
  return await takeBackAll(path, "heal", limits);
};

/** Takes back several side effects in an order that does no harm, and notes each result in the journal of the run that made them. */
import { closeSync, readFileSync, writeSync } from "node:fs";
import { carryOut, type UndoLimits } from "./carry-out.ts";
import { appendEntry, type Effect, type JournalEntry, openEffects, RUN_ITSELF, type RunItself } from "./journal.ts";
import { openOwnFile } from "./own-file.ts";
import { Redactor } from "./redaction.ts";
import { namedUndo } from "./undo.ts";

/** `did`: what was done, or `null` with the `trouble`; the effect then stays open. */
export type TakenBack = { kind: string; name: string; did: string | null; trouble: string | null };

/** The run that wrote the journal, if it has not ended in order. */
export const runOf = (entries: readonly JournalEntry[]): RunItself | null => {
  const open = openEffects(entries).find(({ name }) => name === RUN_ITSELF);
  return entries.find(({ id }) => id === open?.id)?.run ?? null;
};

/** How results are written down. */
export type Notes = {
  write(effect: Effect, phase: "undone" | "about", detail: string): void;
  close(): void;
};

/** Notes at the end of a journal, after the line that the run may have left unfinished. Throws where it is not ours. */
export const notesIn = (path: string, by: "watchdog" | "heal"): Notes => {
  const descriptor = openOwnFile(path, "append");
  const text = readFileSync(descriptor, "utf8");
  if (text !== "" && !text.endsWith("\n")) writeSync(descriptor, "\n");
  const redactor = new Redactor();
  return {
    write: ({ id, kind, name, undo }, phase, detail) =>
      appendEntry(descriptor, { id, kind, name, phase, detail, undo: namedUndo(undo), by }, redactor),
    close: () => closeSync(descriptor),
  };
};

const isLast = ({ undo }: Effect): boolean =>
  undo.how === "remove-folder" || undo.how === "remove-lock" || (undo.how === "end-process" && undo.end_last);

/** Faults and load at the same time, then what carries the links and what they wrote. Never rejects because of one effect. */
export const takeBackAll = async (
  effects: readonly Effect[],
  notes: Notes | null,
  limits: UndoLimits,
): Promise<TakenBack[]> => {
  const note: Notes["write"] = (...about) => {
    try {
      notes?.write(...about);
    } catch {
      // A full disk must not keep the other faults in.
    }
  };
  const takeBack = async (effect: Effect): Promise<TakenBack> => {
    const { kind, name } = effect;
    try {
      const did = await carryOut(effect.undo, limits);
      note(effect, "undone", did);
      return { kind, name, did, trouble: null };
    } catch (error) {
      const trouble = (error as Error).message;
      note(effect, "about", `not taken back: ${trouble}`);
      return { kind, name, did: null, trouble };
    }
  };
  const first = await Promise.all(effects.filter((effect) => !isLast(effect)).map(takeBack));
  return [...first, ...(await Promise.all(effects.filter(isLast).map(takeBack)))];
};

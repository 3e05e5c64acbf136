/** What earlier runs left broken, as their journals name it. */
import { lstatSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { type OpenEffect, openEffects, type RunItself, readJournal, runOf } from "../../supervision/journal.ts";
import { isAlive } from "../../supervision/processes.ts";
import type { NamedUndo, TargetName } from "../../supervision/undo.ts";

const JOURNAL = "journal.ndjson";

const isThere = (path: string): boolean => {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false;
  }
};

/** The journals of all runs under `reports/runs`, or of one run folder. */
export const journalsIn = (reports: string, out?: string): string[] => {
  if (out !== undefined) return [join(resolve(out), JOURNAL)].filter(isThere);
  const runs = join(resolve(reports), "runs");
  if (!isThere(runs)) return [];
  return readdirSync(runs)
    .sort()
    .map((name) => join(runs, name, JOURNAL))
    .filter(isThere);
};

export type LeftOpen = {
  journal: string;
  run: RunItself | null;
  isRunning: boolean;
  /** All that is open and may be taken back. */
  effects: OpenEffect[];
  /** Those of them that are broken on purpose. */
  faults: OpenEffect[];
};

/** Throws a sentence where the journal cannot be read, or could be somebody else's. */
export const readLeftOpen = (journal: string): LeftOpen => {
  const { entries } = readJournal(journal);
  const run = runOf(entries);
  // What nobody can take back (a session, a key) stays open, for people to see.
  const effects = openEffects(entries).filter(({ kind, undo }) => undo.how !== "nothing" || kind === "child");
  return {
    journal,
    run,
    isRunning: run !== null && isAlive(run),
    effects,
    faults: effects.filter(({ kind }) => kind === "fault"),
  };
};

/** As far as journals can be read; one that cannot is for `chaos --heal` to report. */
export const leftOpenUnder = (reports: string): LeftOpen[] =>
  journalsIn(reports).flatMap((journal) => {
    try {
      return [readLeftOpen(journal)];
    } catch {
      return [];
    }
  });

/** The parts of what was done that are on somebody's deployment. */
export const partsOnTargets = (undo: NamedUndo): Extract<NamedUndo, { target: TargetName }>[] => {
  if (undo.how === "all") return undo.undos.flatMap(partsOnTargets);
  return "target" in undo ? [undo] : [];
};

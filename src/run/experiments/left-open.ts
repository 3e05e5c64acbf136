/** What earlier runs left broken, as their journals have it. */
import { existsSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { type OpenEffect, openEffects, readJournal } from "../../supervision/journal.ts";
import { isAlive } from "../../supervision/processes.ts";
import { runOf } from "../../supervision/take-back.ts";

const JOURNAL = "journal.ndjson";

/** The journals of all runs under `reports/runs`, or of one run folder. */
export const journalsIn = (reports: string, out?: string): string[] => {
  if (out !== undefined) return [join(resolve(out), JOURNAL)].filter((path) => existsSync(path));
  const runs = join(reports, "runs");
  if (!existsSync(runs)) return [];
  return readdirSync(runs)
    .sort()
    .map((name) => join(runs, name, JOURNAL))
    .filter((path) => existsSync(path));
};

export type LeftOpen = { journal: string; faults: OpenEffect[]; isRunning: boolean };

/** A folder may be taken away while it is looked at; one that cannot be read is for `chaos --heal` to report. */
const readIfThere = (journal: string): ReturnType<typeof readJournal> => {
  try {
    return readJournal(journal);
  } catch {
    return { entries: [], torn: 0 };
  }
};

/** Faults that a journal has open. */
export const leftOpenIn = (journal: string): LeftOpen => {
  const { entries } = readIfThere(journal);
  const run = runOf(entries);
  return {
    journal,
    faults: openEffects(entries).filter(({ kind }) => kind === "fault"),
    isRunning: run !== null && isAlive(run),
  };
};

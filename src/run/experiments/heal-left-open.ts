/** The body of `chaos --heal`: takes back what the journals of earlier runs have open. */
import { takeBackProxy } from "../../chaos/take-back-proxy.ts";
import { openEffects, readJournal } from "../../supervision/journal.ts";
import { healAfter, type TakenBack } from "../../supervision/take-back.ts";
import { journalsIn, leftOpenIn } from "./left-open.ts";

/** Each journal's whole rescue, and each control call to toxiproxy. */
const JOURNAL_MS = 60_000;
const CALL_MS = 5_000;
const GRACE_MS = 2_000;

export type HealedRun = {
  journal: string;
  /** The run that wrote it is still going and was left alone, with what it has broken now. */
  running: readonly string[] | null;
  taken: readonly TakenBack[];
};

type Healed = { looked: number; runs: HealedRun[]; isWhole: boolean };

const isOpen = (journal: string): boolean =>
  openEffects(readJournal(journal).entries).some(({ kind, undo }) => undo.how !== "nothing" || kind === "child");

/** `out`: one run folder, in place of all under `reports/runs`. */
export const healLeftOpen = async (reports: string, out?: string): Promise<Healed> => {
  const journals = journalsIn(reports, out);
  const runs: HealedRun[] = [];
  for (const journal of journals) {
    if (!isOpen(journal)) continue;
    const { isRunning, faults } = leftOpenIn(journal);
    if (isRunning) {
      runs.push({ journal, running: faults.map(({ name }) => name), taken: [] });
      continue;
    }
    const signal = AbortSignal.timeout(JOURNAL_MS);
    const taken = await healAfter(journal, { takeBackProxy, signal, callMs: CALL_MS, graceMs: GRACE_MS });
    runs.push({ journal, running: null, taken });
  }
  const isWhole = runs.every(
    ({ running, taken }) => (running ?? []).length === 0 && taken.every(({ trouble }) => trouble === null),
  );
  return { looked: journals.length, runs, isWhole };
};

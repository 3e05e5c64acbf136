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

const whyUnreadable = (journal: string): string | null => {
  try {
    readJournal(journal);
    return null;
  } catch (error) {
    return `what was left open is not known: ${(error as Error).message}`;
  }
};

/** `out`: one run folder, in place of all under `reports/runs`. */
export const healLeftOpen = async (reports: string, out?: string): Promise<Healed> => {
  const journals = journalsIn(reports, out);
  const runs: HealedRun[] = [];
  for (const journal of journals) {
    const unreadable = whyUnreadable(journal);
    if (unreadable !== null) {
      // The others are healed all the same.
      const taken = [{ kind: "journal", name: journal, did: null, trouble: unreadable }];
      runs.push({ journal, running: null, taken });
      continue;
    }
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

/** For a run that is to heal first: reports each fault that was taken back, or could not be. */
export const healBeforehand = async (reports: string, say: (text: string) => void): Promise<void> => {
  const { runs } = await healLeftOpen(reports);
  for (const { taken } of runs) {
    for (const { kind, name, did, trouble } of taken) {
      if (kind === "fault") say(`${name} of an earlier run: ${did ?? `still broken: ${trouble}`}`);
      else if (trouble !== null) say(`${name} of an earlier run: ${trouble}`);
    }
  }
};

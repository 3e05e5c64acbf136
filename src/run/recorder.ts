/**
 * Writes a run to disk as it happens, so that a killed run leaves its lines and a `run.json` that says so. Beyond a
 * size, or if a stage asks for it, admitted calls are folded into seconds (history/call-fold.ts).
 */
import type { Recording, RecordingOptions, RunFolder } from "../deployments/run-context.ts";
import { callFold } from "../history/call-fold.ts";
import { seriesFold } from "../history/fold-series.ts";
import type { CallLine, FoldLine, Line } from "../history/line.ts";
import type { RunDocument } from "../history/run-document.ts";
import type { Sample } from "../history/sample.ts";
import type { RecordedStage, StageOutcome } from "../history/stage-outcome.ts";
import { inTimeOrder, Lateness } from "../history/time-order.ts";
import { looksWrong } from "../invariants/evidence/legal-answers.ts";
import type { OtlpExport } from "./otlp-export.ts";
import { jsonLines, outcomeName } from "./read-lines.ts";
import { type StageRecord, wordsOf } from "./run-reports.ts";

const HISTORY = "history.ndjson";
const FOLDS_FROM_BYTES = 500_000_000;

function* ofStage(stage: string, lines: Iterable<Line>): Generator<Line> {
  for (const line of lines) if (line.stage === stage) yield line;
}

export type Recorder = ReturnType<typeof createRecorder>;

/** `watcher` gets every line and sample too, and is closed at the end. */
export const createRecorder = (
  folder: RunFolder,
  watcher: OtlpExport | null = null,
  foldsFromBytes = FOLDS_FROM_BYTES,
) => {
  const history = folder.openLines(HISTORY);
  const ledger = folder.openLines("ledger.ndjson");
  const samples = folder.openLines("samples.ndjson");
  const series = seriesFold();
  const records: StageRecord[] = [];
  const stages: RecordedStage[] = [];
  const seen = new Set<string>();
  /** The lateness of all lines so far, which is at least that of a stage's. */
  const lateness = new Lateness();
  let draft: (() => RunDocument) | null = null;
  /** Set at the end; later lines, by a body that did not stop in time, are dropped. */
  let isClosed = false;
  /** The chain of all writes; a failure shows when the recorder is closed. */
  let writing: Promise<void> = Promise.resolve();
  const write = (work: () => Promise<void>): Promise<void> => {
    if (isClosed) return Promise.resolve();
    writing = writing.then(work);
    writing.catch(() => undefined);
    return writing;
  };
  const wishes = new Map<string, RecordingOptions>();
  let historyChars = 0;
  const keep = (line: Line): void => {
    if (isClosed) return;
    lateness.see(line);
    series.see(line);
    const text = JSON.stringify(line);
    historyChars += text.length;
    void write(() => history.write(text));
  };
  const fold = callFold({
    emit: (line: CallLine | FoldLine) => keep(line),
    looksWrong: (call) => looksWrong(call, wishes.get(call.stage)?.reference === true),
  });
  let grownIn: string | null = null;
  const isFolded = ({ stage }: Line): boolean => {
    if (historyChars >= foldsFromBytes) grownIn ??= stage;
    return grownIn !== null || wishes.get(stage)?.fold === true;
  };
  return {
    stages: stages as readonly RecordedStage[],
    /** Writes the first JSON files. `makeDraft`: the document of a killed run, written again after each stage. */
    begin: async (makeDraft: () => RunDocument): Promise<void> => {
      draft = makeDraft;
      await folder.writeJson("stages.json", records);
      await folder.writeJson("run.json", draft());
    },
    line: (line: Line): void => {
      if (isClosed) return;
      const name = outcomeName(line);
      if (name !== null) seen.add(name);
      watcher?.see(line);
      if (line.type === "call" && isFolded(line)) fold.see(line);
      else keep(line);
    },
    sample: (sample: Sample): void => {
      if (isClosed) return;
      series.see(sample);
      watcher?.see(sample);
      void write(() => samples.write(JSON.stringify(sample)));
    },
    record: async (stage: string, how?: RecordingOptions): Promise<Recording> => {
      if (how !== undefined) wishes.set(stage, how);
      await writing;
      const from = await history.flushed();
      return {
        lines: async () => {
          fold.end();
          await writing;
          const to = await history.flushed();
          return inTimeOrder(ofStage(stage, jsonLines(folder.pathOf(HISTORY), from, to)), lateness.us);
        },
      };
    },
    addStage: ({ facts, ...stage }: StageOutcome): Promise<void> => {
      fold.end();
      // The stage counts even if the disk is full.
      const grown = `${grownIn}: the history has reached ${foldsFromBytes / 1e6} MB; admitted calls are folded from there on`;
      const isGrown = stage.summary.name === grownIn;
      if (!isClosed) stages.push({ ...stage, notes: isGrown ? [...stage.notes, grown] : stage.notes });
      return write(async () => {
        const { ledger: charges, ...others } = facts;
        for (const line of charges ?? []) await ledger.write(JSON.stringify({ stage: facts.stage, ...line }));
        series.limits(facts.stage, facts.limits);
        records.push({ facts: others, hasLedger: charges !== undefined });
        await folder.writeJson("stages.json", records);
        if (draft !== null) await folder.writeJson("run.json", draft());
      });
    },
    outcomesSeen: () => seen.size,
    series: () => {
      fold.end();
      return series.end();
    },
    /** Never rejects; returns why lines are missing in the files, as clauses. */
    close: async (): Promise<string[]> => {
      fold.end();
      isClosed = true;
      const troubles = new Set<string>();
      const trouble = (error: unknown): void => void troubles.add(wordsOf(error));
      await writing.catch(trouble);
      for (const file of [history, ledger, samples]) await file.close().catch(trouble);
      await watcher?.close();
      return [...troubles];
    },
  };
};

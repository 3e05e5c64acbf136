/** The outcome of one stage, the same for every driver. */
import type { Claim, FaultRecord, Measurement, StageSummary } from "./run-document.ts";
import type { StageFacts } from "./stage-facts.ts";

export type StageOutcome = {
  summary: StageSummary;
  facts: StageFacts;
  claims: Claim[];
  measurements: Measurement[];
  faults: FaultRecord[];
  notes: string[];
  /** A fault may still be in effect, so no further fault is injected. */
  isLeftBroken?: boolean;
  /** The deployment had not recovered by the deadline after a fault. */
  didNotRecover?: boolean;
};

/** Makes an outcome; absent parts are empty. */
export const stageOutcome = (parts: Pick<StageOutcome, "summary" | "facts"> & Partial<StageOutcome>): StageOutcome => ({
  ...{ claims: [], measurements: [], faults: [], notes: [] },
  ...parts,
});

/** What a run keeps of a stage in memory; the facts are on disk. */
export type RecordedStage = Omit<StageOutcome, "facts" | "isLeftBroken" | "didNotRecover">;

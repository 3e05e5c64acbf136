/** What came of one stage, whoever made its calls. */
import type { Claim, FaultRecord, Measurement, StageSummary } from "./run-document.ts";
import type { StageFacts } from "./stage-facts.ts";

export type StageOutcome = {
  summary: StageSummary;
  facts: StageFacts;
  claims: Claim[];
  measurements: Measurement[];
  faults: FaultRecord[];
  notes: string[];
  /** What was done to the deployment may still be in: nothing further is to be broken. */
  isLeftBroken?: boolean;
  /** The deployment was not well again by the deadline after a fault. */
  didNotRecover?: boolean;
};

/** The outcome of a stage with the parts that it has; the others are empty. */
export const stageOutcome = (parts: Pick<StageOutcome, "summary" | "facts"> & Partial<StageOutcome>): StageOutcome => ({
  ...{ claims: [], measurements: [], faults: [], notes: [] },
  ...parts,
});

/** What a run keeps of a stage: its facts are on disk. */
export type RecordedStage = Omit<StageOutcome, "facts" | "isLeftBroken" | "didNotRecover">;

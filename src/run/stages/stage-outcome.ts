/** What came of one stage, whoever made its calls. */
import type { Line } from "../../history/line.ts";
import type { Claim, FaultRecord, Measurement, StageSummary } from "../../history/run-document.ts";
import type { StageFacts } from "../../history/stage-facts.ts";

export type StageOutcome = {
  summary: StageSummary;
  /** In time order. */
  lines: Line[];
  facts: StageFacts;
  claims: Claim[];
  measurements: Measurement[];
  faults: FaultRecord[];
  notes: string[];
};

/** A stage without its lines, which are on disk. */
export type RecordedStage = Omit<StageOutcome, "lines" | "facts">;

/** What the body of a recorded run works with; made by run/recorded-run.ts. */
import type { Line } from "../history/line.ts";
import type { Calibration, Claim, Measurement } from "../history/run-document.ts";
import type { Sample } from "../history/series.ts";
import type { StageOutcome } from "../history/stage-facts.ts";
import type { Journal } from "../supervision/journal.ts";
import type { RunFolder } from "../supervision/run-folder.ts";
import type { Supervisor } from "../supervision/supervisor.ts";
import type { ToolName } from "../tools/tool-recipe.ts";
import type { Deployment } from "./deployment.ts";

export type Recording = {
  /** Reads the stage's lines back from disk in time order; memory holds only lines that came out of order. */
  lines(): Promise<Iterable<Line>>;
};

export type RecordingOptions = {
  /** Folds admitted calls from the first one on. */
  fold?: boolean;
  /** The deployment is the reference platform, which must keep more rules. */
  reference?: boolean;
};

export type RunEvents = {
  folder(path: string): void;
  warning(text: string): void;
  step(text: string): void;
  progress(text: string): void;
  result(text: string): void;
  stage(outcome: StageOutcome): void;
  line?(line: Line): void;
  signalled(signal: NodeJS.Signals, times: number, pending: string[]): void;
};

export type RunContext = {
  readonly seed: number;
  /** Random hex digits of this run, which begin every call's id. */
  readonly run: string;
  /** The command that reproduces the claims of this run. */
  readonly replay: string;
  readonly epochUs: number;
  nowUs(): number;
  readonly signal: AbortSignal;
  readonly supervisor: Supervisor;
  readonly journal: Journal;
  readonly folder: RunFolder;
  readonly events: RunEvents;
  /** One for each target file, in order; the body adds the embedded deployment with `opened`. */
  readonly deployments: readonly Deployment[];
  opened(deployment: Deployment): void;
  /** Finds or builds a tool, once; throws `ToolError`. */
  tool(name: ToolName): Promise<string>;
  /** Like `tool`, but `null` if it cannot be had; the report then says that `by` stands in for the tool. */
  toolOrStandIn(name: ToolName, by: string): Promise<string | null>;
  line(line: Line): void;
  /** Begins a stage whose lines are read back from the history when it is over. */
  record(stage: string, how?: RecordingOptions): Promise<Recording>;
  sample(sample: Sample): void;
  /** Keeps a stage's result, and writes its facts and ledger. */
  addStage(outcome: StageOutcome): Promise<void>;
  /** Adds what is judged or measured beyond the stages. */
  add(found: { claims?: readonly Claim[]; measurements?: readonly Measurement[] }): void;
  addCalibration(checks: readonly Calibration[]): void;
  /** Returns a driver's failed calibration checks, which may leave claims about time without a verdict. */
  failedChecks(driver: string): Calibration[];
};

/** Says why the run may send nothing more (budget or stop condition); `null` while it may. */
export const stoppedBy = ({ deployments }: Pick<RunContext, "deployments">): string | null =>
  deployments.map(({ budget }) => budget.stopped).find((stopped) => stopped !== null)?.reason ?? null;

/** What the body of a recorded run has to work with; recorded-run.ts makes it. */
import type { Line } from "../history/line.ts";
import type { Calibration, Claim, Measurement } from "../history/run-document.ts";
import type { Sample } from "../history/sample.ts";
import type { StageOutcome } from "../history/stage-outcome.ts";
import type { Journal } from "../supervision/journal.ts";
import type { Supervisor } from "../supervision/supervisor.ts";
import type { ToolName } from "../tools/tool-recipe.ts";
import type { Deployment } from "./deployment.ts";

type LineWriter = {
  /** One line without its end; resolves when more may be written. */
  write: (line: string) => Promise<void>;
  /** Resolves to the size of the file in bytes when every line so far stands in it. */
  flushed: () => Promise<number>;
  close: () => Promise<void>;
};

export type RunFolder = {
  /** `<UTC time>-<profile>-<4 hex>`. */
  readonly id: string;
  readonly path: string;
  /** The absolute path of a file in it; its folder is made. Throws when the name leads outside. */
  pathOf: (name: string) => string;
  /** A value with every text in it masked: for what is written in a notation of its own, where a secret would look different. */
  masked: <T>(value: T) => T;
  /** Atomically: in full, or what was there before. */
  writeText: (name: string, text: string) => Promise<void>;
  writeJson: (name: string, value: unknown) => Promise<void>;
  openLines: (name: string) => LineWriter;
};

export type Recording = {
  /** The lines of the stage in time order, read back from disk; held at once is what came out of order. */
  lines(): Promise<Iterable<Line>>;
};

export type RecordingOptions = {
  /** Admitted calls are folded from the first one on. */
  fold?: boolean;
  /** The deployment is the reference platform, which is held to more. */
  reference?: boolean;
};

export type RunEvents = {
  folder(path: string): void;
  warning(text: string): void;
  /** A step of the run begins: a line of its own. */
  step(text: string): void;
  progress(text: string): void;
  result(text: string): void;
  stage(outcome: StageOutcome): void;
  /** A call, a fault or a mark as it comes, for whoever watches. */
  line?(line: Line): void;
  signalled(signal: NodeJS.Signals, times: number, pending: string[]): void;
};

export type RunContext = {
  readonly seed: number;
  /** Hex digits that are new in each run: the first part of every call's id. */
  readonly run: string;
  /** The command that shows a claim of this run again. */
  readonly replay: string;
  readonly epochUs: number;
  nowUs(): number;
  readonly signal: AbortSignal;
  readonly supervisor: Supervisor;
  readonly journal: Journal;
  readonly folder: RunFolder;
  readonly events: RunEvents;
  /** One for each target file, in order; the body adds the embedded one with `opened`. */
  readonly deployments: readonly Deployment[];
  opened(deployment: Deployment): void;
  /** Finds or builds a tool, once; throws `ToolError`. */
  tool(name: ToolName): Promise<string>;
  /** The same; where it is not there and cannot be built, `null`, and the report says that `by` stands in for it. */
  toolOrStandIn(name: ToolName, by: string): Promise<string | null>;
  line(line: Line): void;
  /** Begins a stage whose lines are read back from the history when it is over. */
  record(stage: string, how?: RecordingOptions): Promise<Recording>;
  sample(sample: Sample): void;
  /** Keeps a stage's result, and writes its facts and ledger. */
  addStage(outcome: StageOutcome): Promise<void>;
  addClaims(claims: readonly Claim[]): void;
  addMeasurements(measurements: readonly Measurement[]): void;
  addCalibration(checks: readonly Calibration[]): void;
  /** Where the calibration of a driver failed in this run, as sentences: what is about time has no verdict then. */
  failedChecks(driver: string): Calibration[];
};

/** Why nothing more may be sent to any deployment of the run: budget or stop condition; `null` while it may. */
export const stoppedBy = ({ deployments }: Pick<RunContext, "deployments">): string | null =>
  deployments.map(({ budget }) => budget.stopped).find((stopped) => stopped !== null)?.reason ?? null;

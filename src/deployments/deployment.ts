/**
 * What a run works with: its deployments (how to reach one, its processes and stores if the run started them), and the
 * context that run/recorded-run.ts makes.
 */
import type { Line } from "../history/line.ts";
import type { Calibration, Claim, Measurement } from "../history/run-document.ts";
import type { Sample } from "../history/series.ts";
import type { RampStep, StageOutcome } from "../history/stage-facts.ts";
import type { Journal } from "../supervision/journal.ts";
import type { RunFolder } from "../supervision/run-folder.ts";
import type { Supervisor } from "../supervision/supervisor.ts";
import type { Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import type { ToolName } from "../tools/tool-recipe.ts";
import type { Toxiproxy } from "../tools/toxiproxy.ts";
import type { BudgetGuard } from "../workload/budget.ts";
import type { RateFound } from "../workload/callers/target-view.ts";
import type { Part, RedisPart, RoleStarter, ServePart } from "./part.ts";
import type { RemoteWatch } from "./remote-watch.ts";

type LimiterStore = { kind: "sqlite"; path: string } | { kind: "redis"; redis: RedisPart };

export type OwnParts = {
  limiter: Part;
  keys: Part;
  apis: readonly Part[];
  store: LimiterStore;
  startApi(name: string): Promise<ServePart>;
  startRole: RoleStarter;
  /** The load balancer before several replicas; `upstreams`: their URLs in the order of `apis`. */
  front?: { upstreams: readonly string[]; send(upstreams: readonly string[]): Promise<unknown> };
};

/** A dependency of a deployment, by the name of its proxy in the target file. */
export type LinkName = "limiter" | "keys" | "edge";

export type FaultProxies = {
  toxiproxy: Toxiproxy;
  /** The proxy's name, and `host:port` of its listener for a probe. */
  links: Partial<Record<LinkName, { proxy: string; listen: string }>>;
  /** False if others use the toxiproxy too. */
  mayReset: boolean;
  restart?: () => Promise<void>;
};

export type Deployment = {
  readonly target: Target;
  readonly secrets: Secrets;
  readonly file?: string;
  /** The working directory for commands of the target file. */
  readonly folder: string;
  readonly embedded: boolean;
  /** Our reference platform, which must also keep our readings of what the specification leaves open. */
  readonly reference: boolean;
  readonly exclusive: boolean;
  readonly budget: BudgetGuard;
  /** Rates that ramps of this run found, where the target file states none, and what the ramp of streams carried. */
  readonly found: { chat?: RateFound; reads?: RateFound; ramp?: RampStep[] };
  /** `null` if no faults can be injected; `faultsMissing` says why. */
  readonly faults: FaultProxies | null;
  readonly faultsMissing: string;
  /** The watchdog beside a remote proxy, which heals if this machine is cut off; absent if none is needed. */
  readonly remoteWatch?: RemoteWatch;
  /** Processes and stores that this run started; it touches no others. */
  readonly own?: OwnParts;
};

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

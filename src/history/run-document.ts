/** The shape of `run.json`: all that was judged and measured, and the one value that every report is rendered from. */
import type { Objective } from "./objectives.ts";

export type Verdict = "pass" | "fail" | "inconclusive";
export type ClaimVerdict = Verdict | "skipped";
export type Level = "must" | "should" | "info";

/** `id`: `<invariant>/<stage>`, `verify/<rule>`, …, stable between runs; `replay`: the command that shows it again. */
export type Claim = Record<"id" | "stage" | "reason" | "expected" | "got" | "replay", string> & {
  level: Level;
  verdict: ClaimVerdict;
  /** Numbers of requirements in src/contract/requirements.md. */
  spec: number[];
  /** Ids of calls and the like that a reader can look up in `history.ndjson`. */
  evidence: string[];
  /** What a claim `slo/…` judges. */
  objectives?: readonly Objective[];
  /** The id of the claim whose verdict this is, where the stage was played again (played-again.ts). */
  judged_in?: string;
};

/** The part of a claim's id or a stage's name before the first `/`, or the whole. */
export const groupOf = (id: string): string => id.split("/", 1)[0] as string;

/** The id of a claim without its stage. */
export const ruleOf = ({ id, stage }: Pick<Claim, "id" | "stage">): string =>
  id.endsWith(`/${stage}`) ? id.slice(0, -stage.length - 1) : id;

/** By default a *must* without requirement numbers and evidence. */
export const claimOf = (
  parts: Pick<Claim, "id" | "stage" | "verdict" | "reason" | "expected" | "replay"> & Partial<Claim>,
): Claim => ({ level: "must", got: parts.reason, spec: [], evidence: [], ...parts });

/** An inconclusive claim about the run itself. */
export const doubt = (id: string, reason: string, expected: string, replay: string): Claim =>
  claimOf({ id, stage: "run", verdict: "inconclusive", reason, expected, replay });

/** How the access log that a stage replayed was read; nothing else of its lines is kept. */
export type ReplayedLog = {
  /** A name of `--log-format`, and the field that holds the moment. */
  format: string;
  field: string;
  /** What the moment is; `as logged`: the format leaves it open, and it was taken as the start. */
  moment: "start" | "end minus duration" | "end" | "as logged";
  zone: "stated" | "assumed UTC";
  calls: number;
  /** Lines that could not be read, and lines that the format writes of something other than a call. */
  unreadable: number;
  no_calls: number;
  span_s: number;
  longest_silence_s: number;
  /** Nothing in the format tells lines about calls from others. */
  every_line_counts?: true;
  /** How many files the log has, if more than one. */
  files?: number;
  /** From `line` on, `lines` lines are up to `by_s` earlier than one above them; both parts overlap by `overlap_s`. */
  clock_back?: { file?: string; line: number; by_s: number; lines: number; overlap_s: number };
};

/** The states in which a fault may meet a deployment, with what each counts. */
export const FAULT_STATE_WORDS = {
  "streams-open": "streams open when the fault came",
  "cold-keys": "calls by a key whose record was too old",
  "last-unit": "last unit of an allowance taken",
  "refund-under-way": "charges given back",
  "month-edge": "charges given back after the month's edge",
  shedding: "calls shed",
} as const;
export type FaultState = keyof typeof FAULT_STATE_WORDS;
export const FAULT_STATES = Object.keys(FAULT_STATE_WORDS) as FaultState[];

/** `times`: how often a fault met the state; `null` if the deployment shows too little to say. */
export type StateReached = { state: FaultState; must: boolean; times: number | null };

/** The negotiated version of HTTP, as in `transport.protocol`. */
export type Protocol = "h1" | "h2";

export const HTTP_VERSIONS: Readonly<Record<Protocol, string>> = { h1: "HTTP/1.1", h2: "HTTP/2" };

export type StageSummary = {
  name: string;
  driver: string;
  /** As seen on the wire; absent where nothing was answered, or the driver does not see it. */
  protocols?: Protocol[];
  duration_ms: number;
  calls: { sent: number; answered: number; refused: number; indeterminate: number };
  by_outcome: Record<string, number>;
  /** The states that a fault of the stage met, and how often. */
  states?: StateReached[];
  /** How the log was read, if the stage replayed one. */
  replayed?: ReplayedLog;
};

type Named = Record<"name" | "stage" | "unit", string>;

/** `low` and `high`: the 95 % interval. */
export type Measurement = Named & { value: number; n: number; low: number | null; high: number | null };

type OfFault = Record<"experiment" | "link" | "fault" | "stream", string>;
export type FaultRecord = OfFault & { started_ms: number; ended_ms: number; took_effect: boolean };

export type Calibration = Record<"name" | "driver" | "unit", string> & {
  /** `rate`: does the driver hold three times the run's rate? `ceiling`: its highest rate. `arrivals`: their shape. */
  about?: "rate" | "ceiling" | "arrivals";
  truth: number;
  measured: number;
  verdict: Verdict;
};

/** `tool` is not on this machine and could not be built; `by` did its work. */
export type StandIn = { tool: "k6" | "toxiproxy"; by: string };

type Spending = Record<"requests" | "map_loads" | "analyses" | "stream_seconds", number>;

export type RunDocument = {
  schema: "floodgate/run@1";
  id: string;
  profile: string;
  seed: number;
  commit: string | null;
  started_at: string;
  finished_at: string;
  duration_ms: number;
  verdict: Verdict;
  exit_code: number;
  coverage: { outcomes_seen: number; outcomes_of: number; claims_judged: number; claims_skipped: number };
  /** Names of claims or groups that had to be judged; absent in older files. */
  required?: string[];
  target: { name: string; base_url: string; embedded: boolean };
  environment: Record<"node" | "os" | "cpu", string> & {
    k6: string | null;
    toxiproxy: string | null;
    cores: number;
    host_notes: string[];
  };
  /** The substitutes for tools that are not on this machine; absent if all tools are. */
  stand_ins?: StandIn[];
  calibration: Calibration[];
  /** What the run used up of the deployments, and what their target file allows; absent in older files. */
  spent?: Spending;
  budget?: Partial<Spending>;
  stages: StageSummary[];
  claims: Claim[];
  measurements: Measurement[];
  faults: FaultRecord[];
};

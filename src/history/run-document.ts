/** The shape of `run.json`: all that was judged and measured, and the one value that every report is rendered from. */

import type { LedgerLine } from "../contract/routes.ts";
import type { StatedStreamEnds } from "../contract/streams.ts";
import { classOf } from "./line.ts";
import type { Objective } from "./objectives.ts";
import { type OpenCode, openBy, type Ruling, rulingOf } from "./reason-codes.ts";
import type { Interval } from "./statistics/statistics.ts";

export type Verdict = "pass" | "fail" | "inconclusive";
export type ClaimVerdict = Verdict | "skipped";
export type Level = "must" | "should" | "info";

/** `id`: `<invariant>/<stage>`, `verify/<rule>`, …, stable between runs; `replay`: the command that shows it again. */
export type Claim = Record<"id" | "stage" | "reason" | "expected" | "got" | "replay", string> & {
  level: Level;
  /** Numbers of requirements in src/contract/requirements.md. */
  spec: number[];
  /** Ids of calls and the like that a reader can look up in `history.ndjson`. */
  evidence: string[];
  /** What a claim `slo/…` judges. */
  objectives?: readonly Objective[];
  /** Its breach is seen in what was written, in gauges or in the ledger, so it is one whoever answered the calls. */
  stands_alone?: true;
  /** The id of the claim whose verdict this is, where the stage was played again. */
  judged_in?: string;
} & Ruling;

/** The part of a claim's id or a stage's name before the first `/`, or the whole. */
export const groupOf = (id: string): string => id.split("/", 1)[0] as string;

/** The id of a claim without its stage. */
export const ruleOf = ({ id, stage }: Pick<Claim, "id" | "stage">): string =>
  id.endsWith(`/${stage}`) ? id.slice(0, -stage.length - 1) : id;

/** By default a *must* without requirement numbers and evidence. */
export const claimOf = (
  parts: Pick<Claim, "id" | "stage" | "reason" | "expected" | "replay"> & Partial<Omit<Claim, keyof Ruling>> & Ruling,
): Claim => ({ level: "must", got: parts.reason, spec: [], evidence: [], ...parts });

/** An inconclusive claim about the run itself. */
export const doubt = (id: string, code: OpenCode, reason: string, expected: string, replay: string): Claim =>
  claimOf({ id, stage: "run", ...openBy(code), reason, expected, replay });

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
  states?: StateReached[];
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

// What a judge may know about a stage besides its lines. A part that is absent, because the deployment does not show
// it, is not known: nothing is put in its place, and a judge that needs it says "skipped" with its name.

type Caps = "replicas" | "slots" | "service_ms" | "global_in_flight" | "org_in_flight" | "rate_per_s" | "burst";
type Budgets = "limiter_budget_ms" | "key_service_budget_ms" | "revocation_budget_ms";
/** Allowed shares of calls without an answer, of streams cut, and of calls shed below half of the knee. */
type Shares = "unanswered_share" | "streams_cut_share" | "false_sheds_allowed";
/** `limits` of the target file. */
export type Limits = Partial<Record<Caps | Budgets | Shares, number>>;

export const dependencyBudgetMs = (link: string, limits: Limits): number | undefined =>
  link === "limiter" ? limits.limiter_budget_ms : limits.key_service_budget_ms;

export type TenantFacts = {
  tier: "Free" | "Pro" | null;
  /** Map loads a month, and used before the stage, read from the target; absent when unreadable (never assumed zero). */
  allowance?: number;
  used_at_start?: number;
  /** The organization's calls reach its cap on purpose in this stage. */
  noisy?: boolean;
  /** The organization's own cap, where it differs from `limits.org_in_flight`. */
  in_flight_cap?: number;
};

/** A load as it was scheduled: when it began, by the run's clock, and its pieces (workload/load-profiles.ts). */
export type Offered = {
  start_us: number;
  pieces: readonly { readonly from: number; readonly to: number; readonly durationS: number }[];
};

/** A part of a ramp, and the rate at which it was served. */
export type RampStep = {
  rate_per_s: number;
  /** The median time of its admitted calls, in milliseconds, with its 95 % interval. */
  stay_ms: Interval & { value: number };
};

type CurveFacts = {
  /**
   * The steps of the ramp before the curve, up to the first that was not carried, and the part of it that was served at the
   * highest rate: how the deployment was before, and at the beginning of, its first overload.
   */
  ramp?: RampStep[];
  /** Levels that were wanted and are beyond what is permitted, as multiples of the knee. */
  not_played: number[];
  /** Calls that one replica serves at once for these callers; absent where caps are not stated. */
  slots?: number;
  /** Objectives of the target file about these calls. */
  objectives?: string;
};

export type StepFacts = { of: "load" | "capacity"; objectives?: string };

/** `/counts`: outcome -> organization or `"-"` -> number of calls, of this stage alone. */
export type Counts = Record<string, Record<string, number>>;

/** `link_sockets` lead to the key service and the limiter; `heap_bytes` are JavaScript's. */
type Sockets = "sockets" | "open_streams" | "link_sockets";
export type Gauges = Partial<
  Record<Sockets | "event_loop_lag_ms_p99" | "rss_bytes" | "heap_bytes" | "timers", number>
> & {
  in_flight: number;
  in_flight_by_org: Record<string, number>;
  open_files?: number | null;
};

/** Lag of the generator's event loop (k6 has none), and the number of cores that the generator used. */
type OfGenerator = "event_loop_lag_ms_p99" | "event_loop_lag_ms_max" | "cpu_share";
/** Shares of all cores' time taken by the hypervisor, and not idle; share of the time that our group was throttled. */
type SharesOfTime = "steal_share" | "busy_share" | "throttled_share";
/** On this host: connections that a full accept queue turned away, and SYNs sent again. */
type OfKernel = "listen_overflows" | "listen_drops" | "syn_retransmits";
/** The highest shares seen: of the ephemeral ports, and of the files that the generator may open. */
type SharesUsed = "ports_share" | "descriptors_share";

/** From the stage's beginning to its end. `cpu_share_max`: cores that the generator can use at most, one for a loop of Node. */
export type HostFacts = { cpu_share_max: number } & Record<
  OfGenerator | SharesOfTime | OfKernel | SharesUsed,
  number | null
>;

/** What generator and host did in a stage, kept so that a run can be judged again; `null`: not known. */
export type StageHost = {
  host: HostFacts | null;
  /** The number of cores that the run or the deployment may use. */
  cores: number;
  /** Cores that the deployment used, where it was started here, and those that other programs used. */
  target_cores: number | null;
  other_cores: number | null;
  /** The part of `other_cores` that was still in use when no call was under way; absent if it was not measured. */
  idle_other_cores?: number;
  /** Calls of the stage, and how late they left against the schedule: `[share of calls, ms]`, the shares ascending. */
  calls: number;
  lag_ms: [number, number][];
  /** Calls sent per second over those offered, less 1: below 0 some were late or missing; `null` without a schedule. */
  rate_error: number | null;
  /** The generator's own complaints, as sentences. */
  generator: string[];
  /** The checks that the stage's driver did not pass in the calibration before the run. */
  calibration: Calibration[];
};

export type StageFacts = {
  stage: string;
  /** The deployment is the reference platform, which also has to keep our readings of gaps in the requirements. */
  reference?: true;
  /** An older run whose driver left totals and no line for each call; judges that need each call are skipped. */
  totals_only?: true;
  /** The stage ended before its schedule, or its generator did: calls are missing, and a failure is not one. */
  cut_off?: true;
  /** A closed loop has no schedule: each call is due when it is sent, so what judges times is skipped. */
  closed_loop?: true;
  /** Nobody else calls the deployment meanwhile (target file), so what is seen in flight, or charged, is all there is. */
  exclusive: boolean;
  /** Milliseconds since 1970 at which the run's clock stood at zero: says on which side of a month's edge a call is. */
  started_at_ms?: number;
  /** How far this machine's wall clock was set during the stage. The clock of a deployment on it was set as well. */
  clock_set_ms?: number;
  limits: Limits;
  /** The event that ends a whole stream of each kind, as far as the target file states it. */
  stream_end?: StatedStreamEnds;
  shedding: "fixed" | "adaptive" | "unknown";
  tenants: Record<string, TenantFacts>;
  /** The judged states need not occur here (nobody is to be refused, faults were drawn): one not reached is skipped. */
  incidental?: true;
  offered?: Offered;
  curve?: CurveFacts;
  step?: StepFacts;
  faults: boolean;
  /** Calls of earlier stages that may hold a slot still, each by the time of the run at which its slot is believed free. */
  held_before?: number[];
  /** Whether the stage waited until nothing was in flight before counts and ledger were read. */
  drained: boolean;
  counts?: Counts;
  /** Gauges of each API replica, read after the drain, and before the stage's first call. */
  gauges?: Gauges[];
  gauges_before?: Gauges[];
  /** Charges of this stage's calls; on a deployment that is not exclusive there may be other callers' among them. */
  ledger?: LedgerLine[];
  /** Map loads of the stage by the organizations' own meters and by the ledger, where the two are not the same. */
  charges_differ?: { org: string; metered: number; ledger: number }[];
  /** Texts written during the run (logs, output of children), to be searched for secrets. */
  texts?: Iterable<{ name: string; text: string }>;
  /** Look-ups of key records that the key service counted itself in spans of the stage, e.g. from a heal on. */
  key_lookups?: { from_us: number; to_us: number; count: number }[];
  host?: StageHost;
  /** For recovery after a heal. */
  recovery_deadline_ms?: number;
};

export const bareFacts = (stage: string): StageFacts => ({
  ...{ stage, limits: {}, tenants: {}, shedding: "unknown", exclusive: false, faults: false, drained: false },
});

export type StageOutcome = {
  summary: StageSummary;
  facts: StageFacts;
  claims: Claim[];
  measurements: Measurement[];
  faults: FaultRecord[];
  notes: string[];
  /** A fault may still be in effect, so no further fault is injected. */
  isLeftBroken?: boolean;
  /** Why no further stage can be played: the deployment refuses calls with every key that load would be made with. */
  keysRefused?: string;
  /** The deployment had not recovered by the deadline after a fault. */
  didNotRecover?: boolean;
};

export const stageOutcome = (parts: Pick<StageOutcome, "summary" | "facts"> & Partial<StageOutcome>): StageOutcome => ({
  ...{ claims: [], measurements: [], faults: [], notes: [] },
  ...parts,
});

/** What a run keeps of a stage in memory; the facts are on disk. */
export type RecordedStage = Omit<StageOutcome, "facts" | "isLeftBroken" | "keysRefused" | "didNotRecover">;

export const countedSummary = (name: string, driver: string, durationMs: number, byOutcome: Record<string, number>) => {
  const calls = { sent: 0, answered: 0, refused: 0, indeterminate: 0 };
  for (const [outcome, n] of Object.entries(byOutcome)) {
    calls.sent += n;
    calls[classOf(outcome)] += n;
  }
  return { name, driver, duration_ms: durationMs, calls, by_outcome: byOutcome };
};

// A stage is played again, under a name with a suffix, if the machine was disturbed and a claim stayed open.

const SUFFIX = "-again";

/** The name that a stage or a claim has when it is played again. */
export const secondOf = (name: string): string => `${name}${SUFFIX}`;
/** The name without the suffix, which both plays share. */
export const eitherOf = (name: string): string => (name.endsWith(SUFFIX) ? name.slice(0, -SUFFIX.length) : name);

export const isUndecided = ({ level, verdict }: Claim): boolean => level === "must" && verdict === "inconclusive";

/** Gives each *must* that the first play left open the verdict of the second play, if that has one. */
export const decidedByBoth = (claims: readonly Claim[]): Claim[] => {
  const byId = new Map(claims.map((claim) => [claim.id, claim]));
  return claims.map((claim) => {
    const second = isUndecided(claim) ? byId.get(secondOf(claim.id)) : undefined;
    if (second?.verdict !== "pass" && second?.verdict !== "fail") return claim;
    const { got, evidence } = second;
    const reason = `as it was played again (${second.stage}), while the machine was disturbed the first time: ${second.reason}; then it was: ${claim.reason}`;
    return { ...claim, ...rulingOf(second), got, evidence, reason, judged_in: second.id };
  });
};

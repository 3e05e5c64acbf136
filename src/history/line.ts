/**
 * What drivers write and judges read: one line per call, fault or mark, on one clock (microseconds since the run
 * began). Every driver writes the same lines; a judge sees only these, the ledger and the stage's facts.
 */
import type { CallFacts } from "../contract/call-facts.ts";
import { type EnvelopeSeen, isEmptyOutcome } from "../contract/refusals.ts";
import type { RouteName } from "../contract/routes.ts";
import type { StreamEnd } from "../contract/streams.ts";
import type { HistogramJson } from "./statistics/histogram.ts";

export type CallLine = {
  type: "call";
  /** Unique in a run; sent as `X-Request-Id`, prefixed by run and stage, so that the platform can count by it. */
  id: string;
  stage: string;
  driver: string;
  /** The organization that the caller belongs to, `"-"` where the call has no valid credential. */
  org: string;
  /** Alias of the key that the call's rate is counted by (a session's: the key behind it); never the key itself. */
  bucket?: string;
  route: RouteName | "-";
  /** When the call was due: by the schedule, after a retry's wait, or after the step before. Latency counts from here. */
  intended_us: number;
  /** When the call was handed to the transport. The time since `intended_us` is the generator's lag. */
  started_us: number;
  /** When a new connection was established; 0 if one was reused, or none was made. */
  connect_us: number;
  /** Just before the request was written; `started_us` if it never was. Judges order calls by this moment. */
  sent_us: number;
  /** First byte of the head of the answer; `null` when none came. */
  first_us: number | null;
  first_event_us?: number;
  /** End of the answer or of the stream; for no answer, when the caller gave up. */
  done_us: number;
  /** As in `by_outcome`: `"200"`, `"429 org_overloaded"`, `"edge 502"`, `"indeterminate"`, … */
  outcome: string;
  /** 1 for the first retry. */
  attempt: number;
  /** Why a call that is no arrival of the schedule was made: to mint a session, or as a later step of an arrival. */
  unscheduled?: "mint" | "step";
  /** How far the driver's clock may be from the run's. */
  clock_error_us: number;
  envelope?: EnvelopeSeen;
  retry_after?: string;
  /** Fields of `map_load_quota_exceeded` as they came, like `retry_after`. */
  quota?: { meter: unknown; limit: unknown; used: unknown };
  /** The meter an admitted call is charged to, and how much. */
  meter?: "map_loads" | "design_analyses";
  /** How many events a stream sent, and their distinct names. */
  events?: number;
  event_names?: string[];
  /** If absent, the stream's end takes its place. */
  last_event_us?: number;
  /** Microseconds between each two events, in order; of a stream without end the first 10,000. */
  gaps_us?: number[];
  ended?: StreamEnd;
  /** Events that came after the terminal one: a broken stream. */
  late?: number;
  /** Of the answer to a session exchange. */
  expires_in?: unknown;
  product?: unknown;
  /** `aborted`: the caller left the stream on purpose. `slow_reader`: it reads more slowly than the events are sent, on purpose. */
  aborted?: true;
  slow_reader?: true;
  /** Why there was no whole answer: a word of contract/transport-codes.ts, e.g. `connection_reset`, or how it ended. */
  error?: string;
  facts?: CallFacts;
};

/** A phase of a fault: asked for (`injecting`, `healing`) or confirmed. `took_effect` stands on `injected`. */
export type FaultLine = Record<"stage" | "experiment" | "link" | "fault", string> & {
  type: "fault";
  stream: "upstream" | "downstream" | "both";
  phase: "injecting" | "injected" | "healing" | "healed";
  at_us: number;
  took_effect?: boolean;
};

/**
 * A named moment of a stage: `drained`, `steady`, `recovered`, … Judges read these, each written once the change is confirmed:
 * `revoked` (`org`; `detail`: the key's `bucket`), `tier-changed` (`org`), `new-month` (the meters' clock, `clock_offset_ms` ahead
 * of the host's, is in the next month), `caps-changed`, `replicas-changed` (one was added, lost or drains; also written before
 * it, since old and new may run side by side), `operator-changed` (what `detail` names is about to change), `operator-restored`.
 */
export type MarkLine = {
  type: "mark";
  stage: string;
  name: string;
  at_us: number;
  org?: string;
  detail?: string;
  clock_offset_ms?: number;
};

/** What differs from call to call; a fold keeps it in histograms or drops it. */
export const OWN_OF_CALL = [
  ...(["intended_us", "started_us", "connect_us", "sent_us", "first_us"] as const),
  ...(["first_event_us", "last_event_us", "gaps_us", "done_us", "events"] as const),
];

/** What all calls of a kind share; `id` is that of the first call. */
export type CallKind = Omit<CallLine, (typeof OWN_OF_CALL)[number]>;

/** Rows of `DURATIONS` (tally.ts) that admitted calls have; a gap counts in the second of its later event. */
export const FOLDED_DURATIONS = [
  ...(["lag", "latency", "latency_from_sent", "first_event", "first_event_from_sent", "gaps"] as const),
];
export type FoldedDuration = (typeof FOLDED_DURATIONS)[number];

type Moment = "first_intended_us" | "first_started_us" | "last_started_us" | "first_sent_us" | "last_done_us";
/** The moments of the calls that were due in the second, in microseconds of the run. */
export type FoldedMoments = Record<Moment, number>;

/** Many admitted calls in one line: what one organization got in one second with one outcome (call-fold.ts). */
export type FoldLine = Record<"stage" | "driver" | "org" | "outcome", string> & {
  type: "fold";
  /** The first microsecond of the second; a call belongs to the second in which it was due. */
  at_us: number;
  /** Calls that were due, were handed to the transport, and ended in this second. */
  offered: number;
  started: number;
  ended: number;
  /** `null` where none was due. */
  moments: FoldedMoments | null;
  /** Their `n` add up to `offered`. */
  kinds: { call: CallKind; n: number }[];
  durations: Partial<Record<FoldedDuration, HistogramJson>>;
};

export type Line = CallLine | FaultLine | MarkLine | FoldLine;

/** Lines are ordered by when the call, or the first call of the fold, was sent. */
export const lineTimeUs = (line: Line): number => {
  if (line.type === "fold") return line.moments?.first_sent_us ?? line.at_us;
  return line.type === "call" ? line.sent_us : line.at_us;
};

/** A part of a run, in microseconds; from inclusive, to exclusive. */
export type Span = { fromUs: number; toUs: number };

/** The calls of a span. A call belongs to the moment when it was due, so one that left late counts as well. */
export const dueWithin = (lines: readonly CallLine[], { fromUs, toUs }: Span): CallLine[] =>
  lines.filter(({ intended_us: due }) => due >= fromUs && due < toUs);

/** How long a call takes, from the moment when it was due. */
export const stayMs = ({ intended_us: due, done_us: done }: Pick<CallLine, "intended_us" | "done_us">): number =>
  (done - due) / 1000;

/** Reports whether a gateway answered every call, as a firewall does. A 500 outside the envelopes may be the API's. */
export const isGatewayAlone = (outcomes: readonly string[]): boolean =>
  outcomes.length > 0 && outcomes.every((outcome) => outcome.startsWith("edge ") && outcome !== "edge 500");

/** Reports whether the API itself answered: by an event, or by more than a bare success, which any server gives. */
export const showsApi = (line: Line): boolean =>
  line.type === "call" &&
  ((line.events ?? 0) > 0 || !/^(?:edge .*|indeterminate|2\d\d(?: empty)?)$/.test(line.outcome));

/** Answered: 2xx. Refused: a definite no. Indeterminate: no answer, so it may have happened; also a stream without one event. */
export const classOf = (outcome: string): "answered" | "refused" | "indeterminate" => {
  if (outcome === "indeterminate" || isEmptyOutcome(outcome)) return "indeterminate";
  return /^2\d\d/.test(outcome) ? "answered" : "refused";
};

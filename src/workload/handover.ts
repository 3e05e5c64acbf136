/** The input of a k6 scenario, its executor, and the lines that it prints. Both sides compute a call's step from its number. */

import { fnv1a } from "../contract/foreign-text.ts";
import { isStreamed } from "../contract/routes.ts";
import type { StatedStreamEnds, StreamEnd } from "../contract/streams.ts";
import type { Budget, Spent, Stopped } from "./budget.ts";
import type { LimitsInView, TargetView } from "./callers/target-view.ts";
import { type Arrivals, type Profile, profileDurationS, profilePeakPerS } from "./load-profiles.ts";
import type { Places, SessionWanted, Step } from "./step.ts";
import type { Story } from "./story.ts";
import type { Timeouts } from "./timeouts.ts";

/** Times in milliseconds since 1970. */
export type HeldSession = { token: string; renewAtMs: number; endsAtMs: number };

export type HandOver = {
  stage: string;
  idPrefix: string;
  seed: number;
  view: TargetView;
  /**
   * `startUs`: microseconds since 1970 at the schedule's zero, shared by several k6; absent: when k6's scenario starts.
   * `momentsPath`: the file with a trace's moments, which each VU would copy otherwise.
   */
  schedule: { profile: Profile; arrivals: Arrivals; startUs?: number; momentsPath?: string };
  places: Places;
  /** Secrets by `credentialName`. */
  credentials: Record<string, string>;
  /** Minted beforehand, by `credentialName`; absent when k6 runs alone. */
  sessions?: Record<string, HeldSession>;
  /** Listed origins by caller. */
  origins: Record<string, string>;
  headers: Record<string, string>;
  timeouts: Timeouts;
  streamEnd?: StatedStreamEnds;
  options: Record<string, unknown>;
  /** Absent: unbounded. `stated`: the whole budget of the target file, of which `budget` is a share or the rest. */
  budget?: Budget;
  stated?: Budget;
  /** Where k6 writes its summary and the scenario its lines; absent when k6 runs alone. */
  summaryPath?: string;
  printPath?: string;
  /** The most concurrent async calls; absent: each VU waits for its call. */
  callsAtOnce?: number;
  /** False: gaps between events become no k6 samples, which k6 would keep until its end; the lines have the gaps. */
  gapSamples?: boolean;
};

/** One attempt of one step, as printed. Times are microseconds since 1970 and mean what they do in history/line.ts. */
export type Printed = {
  type: "call";
  i: number;
  step: number;
  attempt: number;
  intendedUs: number;
  startedUs: number;
  connectUs: number;
  sentUs: number | null;
  firstUs: number | null;
  firstEventUs: number | null;
  lastEventUs: number | null;
  doneUs: number;
  status: number;
  ended: StreamEnd;
  opened: boolean;
  events: number;
  late: number;
  names: string[];
  /** Microseconds between consecutive events. */
  gaps: number[];
  /** The message of what broke, for contract/transport-codes.ts; "" if nothing did. */
  error: string;
  retryAfter?: string;
  coding?: string;
  /** The part of the body that names the outcome; never a token. */
  body: string;
  aborted: boolean;
};

/** A call that minted a session; not a call of the story. */
export type PrintedMint = Omit<Printed, "type" | "i" | "step" | "attempt" | "intendedUs"> &
  SessionWanted & { type: "mint" /** Sent as `X-Request-Id`. */; id: string };

/** An error of the scenario, not of the target; `lacks`: a credential was missing. */
export type PrintedFault = { type: "fault"; i: number; message: string; lacks?: true };

/** An iteration for which the story plans no call: another story plays the one of that number. */
export type PrintedNothing = { type: "nothing"; i: number };

/** The first line of a part of a distributed run, by which `report --merge` joins the parts. */
export type PrintedPart = {
  type: "part";
  story: string;
  seed: number;
  idPrefix: string;
  view: TargetView;
  profile: Profile;
  arrivals: Arrivals;
  /** What `planMark` gives; absent in parts of older versions. */
  plan?: number;
  /** The target file as far as judges read it, without its secrets. */
  target: Record<string, unknown>;
  /** When the line was written, before the first call was due; microseconds since 1970. */
  atUs: number;
};

const MARKED_CALLS = 20;

/** A checksum of the first calls of a story, by which versions that make other calls are told apart. */
export const planMark = (story: Story, seed: number, view: TargetView): number =>
  fnv1a(JSON.stringify(Array.from({ length: MARKED_CALLS }, (_, i) => story.plan(seed, i, view))));

/** The last line: what was sent, as counted by the extension that sent it. */
export type PrintedSpent = {
  type: "spent";
  spent: Spent;
  /** Calls that the budget stopped. */
  unsent: number;
  /** Calls cut off by the end of the test, which have no line. */
  cut: number;
  /** The most concurrent calls. */
  most: number;
  http1: number;
  http2: number;
  stopped: Stopped | null;
};

/** Stands for each secret in a scenario that is only archived and sends nothing. */
export const PLACEHOLDER = "floodgate-archived-without-secrets";

// How k6 plays a schedule: each iteration takes a number, waits for its moment (scenarios/shared/extension.ts) and
// makes its call. An arrival without a free VU is late; k6's arrival-rate executors would drop it.

/** The longest stall, of target or generator, that must not delay other calls. */
const STALL_S = 0.6;
/** The assumed events of a stream, to estimate how long a slow reader takes. */
const EVENTS = 25;
/** The average wait for a retry: one second, with the jitter of workload/retry.ts. */
const RETRY_WAIT_MS = 1250;
/** The most concurrent calls that are no streams: enough for a stall at 1,000 calls/s; more would delay k6's start. */
const SHORT_MAX = 2_000;
/**
 * k6's option `dns`. By default k6 keeps an address for five minutes, in which a deployment that is moved by DNS has
 * closed the old one; other clients resolve the name for each connection.
 */
export const K6_DNS = { ttl: "1s" } as const;

/** A k6 that runs alone cannot measure the memory. */
export const VUS_MAX_ALONE = 4_000;
/** Memory of a waiting VU with its scripts and connection, and of an async stream with its garbage. */
const VU_BYTES = 400_000;
const CALL_BYTES = 300_000;
/** VUs for async calls: a base, and one for each call that is due within this time at the peak rate. */
const BESIDE_VUS = 32;
const BESIDE_S = 0.005;
/** How many calls of a story are sampled: enough to include what one call in twenty does. */
const LOOKED_AT = 200;

/** The time from the start of k6's scenario to its first arrival, in which all VUs begin to wait. */
export const LEAD_MS = 200;
/** The time from starting several k6 to their shared first arrival; the history shows the late calls of a slower k6. */
const START_MS = 3_000;
const START_MS_PER_VU = 5;
/** How far k6 may fall behind before the rest is given up and counted as never sent. */
const BEHIND_MAX_MS = 30_000;

type ConcurrencyProfile = ReturnType<typeof concurrencyOf>;

/** The concurrent calls to allow: 1.5 times what the deployment holds (Little's law), and those of a stall. */
export const callsAtOnceFor = (profile: Profile, limits: LimitsInView, { streams, idleMs }: ConcurrencyProfile) => {
  const peak = profilePeakPerS(profile);
  const served = peak * ((limits.service_ms ?? 500) / 1000) * 2;
  const held = limits.global_in_flight ?? limits.slots;
  const room = held === undefined ? Number.POSITIVE_INFINITY : held * (limits.replicas ?? 1);
  const resting = 1.5 * peak * (idleMs / 1000);
  const stalled = 1.5 * peak * STALL_S;
  const calls = (served > room ? room : 1.5 * served) + resting + (streams ? Math.min(SHORT_MAX, stalled) : stalled);
  return Math.ceil(streams ? calls : Math.min(SHORT_MAX, calls)) + 10;
};

/** An async call needs a VU only while it is prepared. */
export const vusFor = (profile: Profile, callsAtOnce: number, { isAsync }: ConcurrencyProfile): number =>
  isAsync ? Math.min(callsAtOnce, BESIDE_VUS + Math.ceil(BESIDE_S * profilePeakPerS(profile))) : callsAtOnce;

export const callsThatFit = (memoryBytes: number, { isAsync }: ConcurrencyProfile): number =>
  Math.max(1, Math.floor(memoryBytes / (isAsync ? CALL_BYTES : VU_BYTES)));

export const tooFewCalls = (wanted: number, given: number, why: string): string =>
  `up to ${wanted} calls may have to be under way at once, and k6 makes at most ${given} (${why}): ` +
  "a call that finds no place leaves late, and its lag is in the history";

export const allPlacesTaken = (calls: number): string =>
  `${calls} calls were under way at once, as many as k6 makes here, so later calls had to wait for a place and left late: ` +
  "where streams take long, say how long in `limits.service_ms` of the target file, and k6 makes more";

export const startTogetherMs = (vus: number): number => START_MS + START_MS_PER_VU * vus;

/** Reports whether a call can be async: nothing follows, reading does not pause, and the answer has no token. */
export const needNoVu = (steps: readonly Step[]): boolean => {
  const only = steps[0];
  return (
    steps.length === 1 &&
    only !== undefined &&
    only.retry === undefined &&
    only.slowReadMs === undefined &&
    only.route !== "sdk.sessions" &&
    (only.abort === undefined || "afterEvents" in only.abort)
  );
};

/** `idleMs`: how long a call pauses, to read slowly (at most) or to wait for a retry (on average). `isAsync`: every call can be async. */
export const concurrencyOf = (story: Story, seed: number, view: TargetView) => {
  const calls = Array.from({ length: LOOKED_AT }, (_, i) => story.plan(seed, i, view));
  const steps = calls.map(([step]) => step);
  const reading = Math.max(0, ...steps.map((step) => EVENTS * (step?.slowReadMs ?? 0)));
  const waiting = steps.reduce((sum, step) => sum + (step?.retry?.honours ? step.retry.times * RETRY_WAIT_MS : 0), 0);
  const streams = calls.flat().some(isStreamed);
  return { streams, idleMs: reading + waiting / LOOKED_AT, isAsync: calls.every(needNoVu) };
};

type K6Play = {
  profile: Profile;
  /** The number of arrivals of the whole schedule, over all segments. */
  arrivals: number;
  vus: number;
  /** How long calls may take after the last arrival. */
  gracefulStopMs: number;
};

export const executorFor = ({ profile, arrivals, vus, gracefulStopMs }: K6Play): Record<string, unknown> => ({
  executor: "shared-iterations",
  iterations: arrivals,
  // k6 refuses more VUs than iterations.
  vus: Math.min(vus, arrivals),
  maxDuration: `${Math.ceil(LEAD_MS + profileDurationS(profile) * 1000 + BEHIND_MAX_MS)}ms`,
  gracefulStop: `${gracefulStopMs}ms`,
});

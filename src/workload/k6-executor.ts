/**
 * How k6 plays a schedule: each iteration takes a number, waits for its moment (scenarios/shared/extension.ts) and makes
 * its call. An arrival without a free VU is late; k6's arrival-rate executors would drop it.
 */
import { isStreamed } from "../contract/routes.ts";
import type { LimitsInView, TargetView } from "./callers/target-view.ts";
import { type Profile, profileDurationS, profilePeakPerS } from "./load-profiles.ts";
import type { Step } from "./step.ts";
import type { Story } from "./story.ts";

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
/** Calls sampled from a story: enough to include what one call in twenty does. */
const LOOKED_AT = 200;

/** The time from the start of k6's scenario to its first arrival, in which all VUs begin to wait. */
export const LEAD_MS = 200;
/** The time from starting several k6 to their shared first arrival; the history shows the late calls of a slower k6. */
const START_MS = 3_000;
const START_MS_PER_VU = 5;
/** How far k6 may fall behind before the rest is given up and counted as never sent. */
const BEHIND_MAX_MS = 30_000;

type ConcurrencyProfile = {
  streams: boolean;
  /** Milliseconds that a call pauses: reading slowly (at most), or waiting for a retry (on average). */
  idleMs: number;
  /** Every call can be async (`needNoVu`). */
  isAsync: boolean;
};

/** The concurrent calls to allow: 1.5 times what the deployment holds (Little's law), and those of a stall. */
export const callsAtOnceFor = (
  profile: Profile,
  limits: LimitsInView,
  { streams, idleMs }: ConcurrencyProfile,
): number => {
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

export const concurrencyOf = (story: Story, seed: number, view: TargetView): ConcurrencyProfile => {
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

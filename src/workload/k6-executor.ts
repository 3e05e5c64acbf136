/**
 * How k6 plays a schedule: each iteration takes its number, waits for the moment of that number (scenarios/shared/turns.ts) and
 * makes its call. So an arrival that finds no free VU is late, and its lag is seen, where an arrival-rate executor of k6 would
 * drop it; and Poisson arrivals, traces and segments are what they are in every other driver.
 */
import { routeOf } from "../contract/routes.ts";
import type { LimitsInView, TargetView } from "./callers/target-view.ts";
import { type Profile, profileDurationS, profilePeakPerS } from "./load-profiles.ts";
import type { Step } from "./step.ts";
import type { Story } from "./story.ts";

/** What a call that is no stream, or is refused, may take before it makes another one late: a stall of the target and ours. */
const STALL_S = 0.6;
/** Events of a stream, for the time that a slow reader takes. */
const EVENTS = 25;
/** What a refusal asks to wait for, with the jitter of workload/retry.ts. */
const RETRY_WAIT_MS = 1250;
/** Where no call is a stream, more would only make k6 start later: so many cover a stall at a thousand calls a second. */
const SHORT_MAX = 2_000;
/** VUs of a k6 that runs by itself, which cannot see how much memory there is. */
export const VUS_MAX_ALONE = 4_000;
/** Memory of a VU that waits for a stream, its scripts and its connection included; and of a stream beside the VUs, with its garbage. */
const VU_BYTES = 400_000;
const CALL_BYTES = 300_000;
/** VUs that make calls which they do not wait for: some, and for so long of the highest rate. */
const BESIDE_VUS = 32;
const BESIDE_S = 0.005;
/** Calls looked at to see how a story's callers behave: enough to meet what one in twenty does. */
const LOOKED_AT = 200;

/** From the beginning of k6's scenario to its first arrival: time for all VUs to begin waiting. */
export const LEAD_MS = 200;
/**
 * From starting several k6 to their first arrival, which they share: each reads its scripts and makes its VUs first, on the same
 * cores. One that needs longer makes its first calls late, and that is seen.
 */
const START_MS = 3_000;
const START_MS_PER_VU = 5;
/** How far behind its schedule k6 may fall before what is left is given up, and counted as never sent. */
const BEHIND_MAX_MS = 30_000;

/** What the callers of a story need. */
export type Holding = {
  /** Some of its calls are streams. */
  streams: boolean;
  /** Milliseconds for which a call rests at most, reading slowly, or in the mean, waiting to be tried again. */
  restingMs: number;
  /** Every call can be made beside the VUs (`needNoVu`). */
  beside: boolean;
};

/**
 * How many calls may be under way at once, by Little's law, with half as much again: what the deployment can hold, and for the
 * rest a stall's length. One that finds no place leaves late. Streams are held for as long as they take, so they are given
 * what they need, as far as there is memory (`callsThatFit`); calls that are over at once need no more than so many.
 */
export const callsAtOnceFor = (profile: Profile, limits: LimitsInView, { streams, restingMs }: Holding): number => {
  const peak = profilePeakPerS(profile);
  const served = peak * ((limits.service_ms ?? 500) / 1000) * 2;
  const held = limits.global_in_flight ?? limits.slots;
  const room = held === undefined ? Number.POSITIVE_INFINITY : held * (limits.replicas ?? 1);
  const resting = 1.5 * peak * (restingMs / 1000);
  const stalled = 1.5 * peak * STALL_S;
  // More than the deployment has room for is never held.
  const calls = (served > room ? room : 1.5 * served) + resting + (streams ? Math.min(SHORT_MAX, stalled) : stalled);
  return Math.ceil(streams ? calls : Math.min(SHORT_MAX, calls)) + 10;
};

/**
 * How many VUs make so many calls at once. A VU that waits for its call holds one; where all calls are made beside the VUs, each
 * is needed for no longer than it takes to work a call out.
 */
export const vusFor = (profile: Profile, callsAtOnce: number, { beside }: Holding): number =>
  beside ? Math.min(callsAtOnce, BESIDE_VUS + Math.ceil(BESIDE_S * profilePeakPerS(profile))) : callsAtOnce;

/** How many calls at once a share of the memory that is there, in bytes, is enough for. */
export const callsThatFit = (memoryBytes: number, { beside }: Holding): number =>
  Math.max(1, Math.floor(memoryBytes / (beside ? CALL_BYTES : VU_BYTES)));

/** What is said where more calls may come to be under way than there may be. */
export const tooFewCalls = (wanted: number, given: number, why: string): string =>
  `up to ${wanted} calls may have to be under way at once, and k6 makes at most ${given} (${why}): ` +
  "a call that finds no place leaves late, and its lag is in the history";

/** What is said where there were so many. */
export const allPlacesTaken = (calls: number): string =>
  `${calls} calls were under way at once, as many as k6 makes here, so later calls had to wait for a place and left late: ` +
  "where streams take long, say how long in `limits.service_ms` of the target file, and k6 makes more";

export const startTogetherMs = (vus: number): number => START_MS + START_MS_PER_VU * vus;

/** Whether nobody has to wait for the answer: nothing follows it, nothing rests while it is read, and no token comes with it. */
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

/** By the first calls of a story. */
export const holdingOf = (story: Story, seed: number, view: TargetView): Holding => {
  const calls = Array.from({ length: LOOKED_AT }, (_, i) => story.plan(seed, i, view));
  const steps = calls.map(([step]) => step);
  const reading = Math.max(0, ...steps.map((step) => EVENTS * (step?.slowReadMs ?? 0)));
  const waiting = steps.reduce((sum, step) => sum + (step?.retry?.honours ? step.retry.times * RETRY_WAIT_MS : 0), 0);
  const streams = calls.flat().some(({ route }) => route !== "-" && routeOf(route).stream !== undefined);
  return { streams, restingMs: reading + waiting / LOOKED_AT, beside: calls.every(needNoVu) };
};

type K6Play = {
  profile: Profile;
  /** Arrivals of the whole schedule, of all segments. */
  arrivals: number;
  vus: number;
  /** How long calls may go on after the last arrival. */
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

/**
 * How k6 plays a schedule: each iteration takes its number, waits for the moment of that number (scenarios/shared/turns.ts) and
 * makes its call. So an arrival that finds no free VU is late, and its lag is seen, where an arrival-rate executor of k6 would
 * drop it; and Poisson arrivals, traces and segments are what they are in every other driver.
 */
import type { LimitsInView, TargetView } from "./callers/target-view.ts";
import { type Profile, profileDurationS, profilePeakPerS } from "./load-profiles.ts";
import type { Story } from "./story.ts";

/** What a call that is no stream, or is refused, may take before it makes another one late: a stall of the target and ours. */
const STALL_S = 0.6;
/** Events of a stream, for the time that a slow reader takes. */
const EVENTS = 25;
/** What a refusal asks to wait for, with the jitter of workload/retry.ts. */
const RETRY_WAIT_MS = 1250;
/** Calls looked at to see how a story's callers behave. */
const LOOKED_AT = 20;

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

/**
 * VUs by Little's law, with half as much again. One call holds one VU (k6/x/sse blocks it): what the deployment can hold at
 * once, and for the rest a stall's length. A missing VU makes a call late.
 */
export const vusFor = (profile: Profile, limits: LimitsInView, restingMs = 0): number => {
  const peak = profilePeakPerS(profile);
  const serviceS = (limits.service_ms ?? 500) / 1000;
  const held = limits.global_in_flight ?? limits.slots;
  const room = held === undefined ? Number.POSITIVE_INFINITY : held * (limits.replicas ?? 1);
  const streams = Math.min(room, peak * serviceS * 2);
  return Math.min(2000, Math.ceil(1.5 * (streams + peak * (STALL_S + restingMs / 1000))) + 10);
};

export const startTogetherMs = (vus: number): number => START_MS + START_MS_PER_VU * vus;

/** Milliseconds for which a call rests at most, reading slowly, or in the mean, waiting to be tried again. */
export const restMs = (story: Story, seed: number, view: TargetView): number => {
  const steps = Array.from({ length: LOOKED_AT }, (_, i) => story.plan(seed, i, view)[0]);
  const reading = Math.max(0, ...steps.map((step) => EVENTS * (step?.slowReadMs ?? 0)));
  const waiting = steps.reduce((sum, step) => sum + (step?.retry?.honours ? step.retry.times * RETRY_WAIT_MS : 0), 0);
  return reading + waiting / LOOKED_AT;
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

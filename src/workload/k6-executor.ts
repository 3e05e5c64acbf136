/** A profile as k6's executors take it, and how many VUs it needs. */
import { arrivalTimesUs } from "./arrivals.ts";
import type { LimitsInView, TargetView } from "./callers/target-view.ts";
import { type Profile, profilePeakPerS } from "./load-profiles.ts";
import type { Story } from "./story.ts";

/** k6 takes whole numbers, so a rate is given per 1000 s. */
const perThousandSeconds = (ratePerS: number): number => Math.round(ratePerS * 1000);
const UNIT = { timeUnit: "1000s" };

const seconds = (s: number): string => `${Math.round(s * 1000)}ms`;

/** What a call that is no stream, or is refused, may take before it costs us an iteration: a stall of the target and ours. */
const STALL_S = 0.6;
/** Events of a stream, for the time that a slow reader takes. */
const EVENTS = 25;
/** What a refusal asks to wait for, with the jitter of workload/retry.ts. */
const RETRY_WAIT_MS = 1250;
/** Calls looked at to see how a story's callers behave. */
const LOOKED_AT = 20;

/**
 * VUs by Little's law, with half as much again. One call holds one VU (k6/x/sse blocks it): what the deployment can hold at
 * once, and for the rest a stall's length. A missing VU drops an iteration, even where k6 could still make one.
 */
export const vusFor = (profile: Profile, limits: LimitsInView, restingMs = 0): number => {
  const peak = profilePeakPerS(profile);
  const serviceS = (limits.service_ms ?? 500) / 1000;
  const held = limits.global_in_flight ?? limits.slots;
  const room = held === undefined ? Number.POSITIVE_INFINITY : held * (limits.replicas ?? 1);
  const streams = Math.min(room, peak * serviceS * 2);
  return Math.min(2000, Math.ceil(1.5 * (streams + peak * (STALL_S + restingMs / 1000))) + 10);
};

/** Milliseconds for which a call rests at most, reading slowly, or in the mean, waiting to be tried again. */
export const restMs = (story: Story, seed: number, view: TargetView): number => {
  const steps = Array.from({ length: LOOKED_AT }, (_, i) => story.plan(seed, i, view)[0]);
  const reading = Math.max(0, ...steps.map((step) => EVENTS * (step?.slowReadMs ?? 0)));
  const waiting = steps.reduce((sum, step) => sum + (step?.retry?.honours ? step.retry.times * RETRY_WAIT_MS : 0), 0);
  return reading + waiting / LOOKED_AT;
};

const isFlat = ({ pieces }: Profile): boolean => pieces.length === 1 && pieces[0]?.from === pieces[0]?.to;

/** `gracefulStopMs`: how long calls may go on after the last arrival. */
export const executorFor = (profile: Profile, vus: number, gracefulStopMs: number): Record<string, unknown> => {
  const shared = { preAllocatedVUs: vus, maxVUs: vus, gracefulStop: `${gracefulStopMs}ms`, ...UNIT };
  const first = profile.pieces[0];
  if (first !== undefined && isFlat(profile)) {
    const rate = perThousandSeconds(first.from);
    return { executor: "constant-arrival-rate", rate, duration: seconds(first.durationS), ...shared };
  }
  const stages: { target: number; duration: string }[] = [];
  let at = first?.from ?? 0;
  for (const { from, to, durationS } of profile.pieces) {
    if (from !== at) stages.push({ target: perThousandSeconds(from), duration: "0s" });
    stages.push({ target: perThousandSeconds(to), duration: seconds(durationS) });
    at = to;
  }
  return { executor: "ramping-arrival-rate", startRate: perThousandSeconds(first?.from ?? 0), stages, ...shared };
};

/**
 * When k6 begins each iteration, in microseconds after its start. Its ramping executor begins the first one where the
 * integral of the rate reaches 1, not 0 (lib/executor/ramping_arrival_rate.go, `cal`), so it is one arrival behind ours.
 */
export const k6ScheduleUs = (profile: Profile): number[] =>
  arrivalTimesUs(profile, "uniform", 0).slice(isFlat(profile) ? 0 : 1);

/** More dropped iterations than this share put a load by k6 in doubt. */
export const DROPPED_MAX = 0.001;

/**
 * How a deployment does, as its callers see it: steady, hit by a fault, back again. A deployment may have a few refusals of
 * its own all day, so each stage is compared with what it was itself before the fault, and never with perfection.
 */
import { wilsonInterval } from "../../history/statistics/statistics.ts";
import type { CallsSeen } from "./recent-calls.ts";

/** Below this share of calls that come through nothing can be seen of a fault. */
const STEADY_SHARE = 0.9;
/** As many calls have to be looked at before a fault is read from them. */
export const ENOUGH_TO_SHOW = 10;
/** A drop that is smaller than this is no fault. */
const LEAST_DROP = 0.02;
const SLOWER_TIMES = 2;
const SLOWER_MS = 20;

const shareOf = ({ calls, through }: CallsSeen): number => (calls === 0 ? 0 : through / calls);

export const isSteady = (now: CallsSeen, wanted: number): boolean =>
  now.calls >= wanted && shareOf(now) >= STEADY_SHARE;

/** One stray is none; more than three times what was usual is not back. */
export const isBack = (before: CallsSeen, now: CallsSeen, wanted: number): boolean =>
  now.calls >= wanted && now.calls - now.through <= 1 + 3 * now.calls * (1 - shareOf(before));

const SILENT_S = 1;
const SILENT_CALLS = 20;

/** So many calls are out, and not one has come back since: whoever should answer does not. */
export const isSilent = (since: CallsSeen, sinceS: number, ratePerS: number): boolean =>
  since.calls === 0 && sinceS >= SILENT_S && sinceS * ratePerS >= SILENT_CALLS;

/** Certainly fewer calls come through than before, or they take much longer: something is broken on their way. */
export const showsFault = (before: CallsSeen, now: CallsSeen): boolean => {
  if (now.calls < ENOUGH_TO_SHOW) return false;
  const most = wilsonInterval(now.through, now.calls)?.high ?? 1;
  const isSlower = (["latencyMsP50", "tookMsP50"] as const).some(
    (time) => now[time] > SLOWER_TIMES * before[time] + SLOWER_MS,
  );
  return most < shareOf(before) - LEAST_DROP || isSlower;
};

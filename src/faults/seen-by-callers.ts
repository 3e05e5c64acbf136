/**
 * Tells from the load's newest calls whether a deployment is steady, affected by a fault, or recovered. Calls are
 * compared with those before the fault, because a deployment may always refuse a few.
 */
import { SHED_OUTCOMES } from "../contract/refusals.ts";
import type { CallLine } from "../history/line.ts";
import { median, wilsonInterval } from "../history/statistics/statistics.ts";

const KEPT = 512;

/** Refusals that require both limiter and key service to answer. */
const DECIDED = new Set(["429 rate_limited", "429 map_load_quota_exceeded", "429 map_load_hard_stop"]);

/** Counts calls that were not shed, and `through` those that limiter and key service decided. */
export type CallsSeen = { calls: number; through: number; latencyMsP50: number; tookMsP50: number };

const medianMs = (us: readonly number[]): number => (median(us) ?? 0) / 1000;

export type RecentCalls = ReturnType<typeof createRecentCalls>;

export const createRecentCalls = () => {
  const kept: CallLine[] = [];
  return {
    add: (line: CallLine): void => {
      // The API sheds a call before it asks a dependency, so the call shows nothing of a fault.
      if (SHED_OUTCOMES.has(line.outcome)) return;
      kept.push(line);
      if (kept.length > 2 * KEPT) kept.splice(0, KEPT);
    },
    /** When the newest call that has come back was sent. */
    sentUs: (): number => kept.reduce((us, { sent_us }) => Math.max(us, sent_us), Number.NEGATIVE_INFINITY),
    /** Summarizes the newest calls, at most `most`, that were sent since `sinceUs` of the run's clock. */
    newest: (sinceUs: number, most = KEPT): CallsSeen => {
      const seen = kept.filter(({ sent_us }) => sent_us >= sinceUs).slice(-most);
      return {
        calls: seen.length,
        through: seen.filter(({ outcome }) => outcome.startsWith("2") || DECIDED.has(outcome)).length,
        latencyMsP50: medianMs(
          seen.map((call) => (call.first_event_us ?? call.first_us ?? call.done_us) - call.sent_us),
        ),
        tookMsP50: medianMs(seen.map(({ sent_us, done_us }) => done_us - sent_us)),
      };
    },
  };
};

/** The share of calls that get through in a steady state; below it a fault's effect would not show. */
const STEADY_SHARE = 0.9;
export const ENOUGH_TO_SHOW = 10;
const LEAST_DROP = 0.02;
const SLOWER_TIMES = 2;
const SLOWER_MS = 20;
const SILENT_S = 1;
const SILENT_CALLS = 20;

const shareOf = ({ calls, through }: CallsSeen): number => (calls === 0 ? 0 : through / calls);

export const isSteady = (now: CallsSeen, wanted: number) => now.calls >= wanted && shareOf(now) >= STEADY_SHARE;

/** Reports recovery: the calls that do not get through are at most three times the earlier share, plus one. */
export const isBack = (before: CallsSeen, now: CallsSeen, wanted: number): boolean =>
  now.calls >= wanted && now.calls - now.through <= 1 + 3 * now.calls * (1 - shareOf(before));

/** `forS`: since when nothing that was sent has come back. Calls in flight take as long as those before the fault. */
export const isSilent = (before: CallsSeen, forS: number, ratePerS: number): boolean =>
  forS >= SILENT_S + (2 * before.tookMsP50) / 1000 && forS * ratePerS >= SILENT_CALLS;

/** Reports whether significantly fewer calls get through than before (Wilson interval), or calls take much longer. */
export const showsFault = (before: CallsSeen, now: CallsSeen): boolean => {
  if (now.calls < ENOUGH_TO_SHOW) return false;
  const most = wilsonInterval(now.through, now.calls)?.high ?? 1;
  const isSlower = (["latencyMsP50", "tookMsP50"] as const).some(
    (time) => now[time] > SLOWER_TIMES * before[time] + SLOWER_MS,
  );
  return most < shareOf(before) - LEAST_DROP || isSlower;
};

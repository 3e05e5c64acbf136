/**
 * How a deployment does, by the newest calls of the load: steady, hit by a fault, back again. A deployment may refuse a few calls
 * all day, so each is compared with what it was before the fault, and never with perfection.
 */
import type { CallLine } from "../history/line.ts";
import { wilsonInterval } from "../history/statistics/statistics.ts";

const KEPT = 512;

/** Outcomes that only a deployment gives whose limiter and key service both answer, beside an answer itself. */
const DECIDED = new Set(["429 rate_limited", "429 map_load_quota_exceeded", "429 map_load_hard_stop"]);
/** Shed before a dependency is asked, so these show nothing about it. */
const SHED = new Set(["429 b2b_overloaded", "429 org_overloaded"]);

/**
 * Calls that were not shed; `through`: of these, the ones that limiter and key service decided. `latencyMsP50`: until the first
 * event or byte; `tookMsP50`: until the last.
 */
export type CallsSeen = { calls: number; through: number; latencyMsP50: number; tookMsP50: number };

export type RecentCalls = {
  add(line: CallLine): void;
  /** At most `most` of the newest calls that were sent since a moment (microseconds of the run's clock). */
  newest(sinceUs: number, most?: number): CallsSeen;
};

const medianMs = (us: number[]): number => {
  us.sort((one, other) => one - other);
  return (us[us.length >> 1] ?? 0) / 1000;
};

export const createRecentCalls = (): RecentCalls => {
  const kept: CallLine[] = [];
  return {
    add: (line) => {
      if (SHED.has(line.outcome)) return;
      kept.push(line);
      if (kept.length > 2 * KEPT) kept.splice(0, KEPT);
    },
    newest: (sinceUs, most = KEPT) => {
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

/** With fewer of the calls coming through, the effect of a fault cannot be seen. */
const STEADY_SHARE = 0.9;
/** Calls that have to be looked at before a fault is read from them. */
export const ENOUGH_TO_SHOW = 10;
/** A smaller drop is no fault. */
const LEAST_DROP = 0.02;
const SLOWER_TIMES = 2;
const SLOWER_MS = 20;
const SILENT_S = 1;
const SILENT_CALLS = 20;

const shareOf = ({ calls, through }: CallsSeen): number => (calls === 0 ? 0 : through / calls);

export const isSteady = (now: CallsSeen, wanted: number): boolean =>
  now.calls >= wanted && shareOf(now) >= STEADY_SHARE;

/** Recovered: at most one refusal beside three times what was usual before the fault. */
export const isBack = (before: CallsSeen, now: CallsSeen, wanted: number): boolean =>
  now.calls >= wanted && now.calls - now.through <= 1 + 3 * now.calls * (1 - shareOf(before));

/** Many calls were sent since, and none was answered: the deployment is silent. */
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

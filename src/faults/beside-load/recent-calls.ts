/** The newest calls of a load that is under way: what an experiment looks at to know how a deployment does. */
import type { CallLine } from "../../history/line.ts";

const KEPT = 512;

/** What only a deployment says whose limiter and key service both answer, beside an answer itself. */
const DECIDED = new Set(["429 rate_limited", "429 map_load_quota_exceeded", "429 map_load_hard_stop"]);
/** Shed before a dependency is asked: says nothing about it. */
const SHED = new Set(["429 b2b_overloaded", "429 org_overloaded"]);

/** `latencyMsP50`: until the first byte; `tookMsP50`: until the last. `through`: of `calls`, those that the limiter and the key service decided. Calls that were shed are not among them. */
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
      const seen = kept.filter(({ sent_us: sentUs }) => sentUs >= sinceUs).slice(-most);
      return {
        calls: seen.length,
        through: seen.filter(({ outcome }) => /^2/.test(outcome) || DECIDED.has(outcome)).length,
        latencyMsP50: medianMs(
          seen.map((line) => (line.first_event_us ?? line.first_us ?? line.done_us) - line.sent_us),
        ),
        tookMsP50: medianMs(seen.map(({ sent_us, done_us }) => done_us - sent_us)),
      };
    },
  };
};

/**
 * k6 thresholds for a scenario without the runner, so that its exit code says whether it passed. With the runner there
 * are no thresholds, because the invariants judge the calls.
 */
import { check } from "k6";
import { Counter, Trend } from "k6/metrics";
import type { SseResponse } from "k6/x/sse";
import {
  emptyOutcome,
  GAP_REFUSALS,
  type GapRefusalName,
  OUTCOMES,
  outcomeOf as outcomeNamed,
} from "../../src/contract/refusals.ts";
import { isWholeAnswer, STREAM_ENDS } from "../../src/contract/streams.ts";
import { LATE_MS } from "../../src/workload/load-profiles.ts";
import type { Step } from "../../src/workload/step.ts";
import type { Reach } from "../../src/workload/story.ts";
import { endingOf, outcomeOf } from "./calls.ts";

declare const console: { warn(text: string): void };

/** What a scenario states beside its story, which names the outcomes that must be seen. */
export type Expectations = {
  /** Outcomes allowed besides those that must be seen; absent: all of the contract. */
  allowed?: readonly string[];
};

/** The outcomes expected on this target under this load. Plain data, because VUs share it. */
export type Expected = {
  /** At least one outcome of each list must be seen. */
  seen: readonly (readonly string[])[];
  allowed: readonly string[] | null;
};

export const expectedOn = ({ all, oneOf }: Reach, { allowed }: Expectations): Expected => ({
  seen: [...all.map((outcome) => [outcome]), ...(oneOf.length === 0 ? [] : [oneOf])],
  allowed: allowed === undefined ? null : [...allowed, ...all, ...oneOf],
});

/** The tag value of a list. */
const named = (outcomes: readonly string[]): string => outcomes.join(" or ");

const LEGAL = new Set([
  "200",
  "201",
  "204",
  ...OUTCOMES,
  ...(Object.keys(GAP_REFUSALS) as GapRefusalName[]).map(outcomeNamed),
]);
const OTHER = "outside the contract";

/** The outcome of a stream without any event. */
const EMPTY = emptyOutcome(200);

/** The names that outcomes are counted by. Those outside the contract share one, which bounds the metrics. */
export const COUNTED: readonly string[] = [...LEGAL, EMPTY, "indeterminate", OTHER];

export const METRICS = {
  calls: "floodgate_calls",
  expected: "floodgate_expected",
  streams: "floodgate_streams",
  firstEvent: "floodgate_first_event",
  latency: "floodgate_latency",
  lag: "floodgate_schedule_lag",
  faults: "floodgate_faults",
} as const;

const CHECKS = {
  legal: "the answer is one of the contract",
  allowed: "the answer is one that this scenario may bring",
  once: "an admitted stream has an event and ends once, with its last event where that is known",
} as const;

export const thresholdsOf = ({ seen }: Expected): Record<string, string[]> => {
  const of = (metric: string, tag: string, value: string): string => `${metric}{${tag}:${value}}`;
  const thresholds: Record<string, string[]> = {
    checks: ["rate==1"],
    [METRICS.calls]: ["count>0"],
    [METRICS.faults]: ["count==0"],
    // k6 drops arrivals that are left when its time is over; figures about time need calls that leave in time.
    dropped_iterations: ["count==0"],
    [METRICS.lag]: [`p(99)<${LATE_MS}`],
  };
  // k6 keeps a metric by tag only if a threshold names the tag.
  for (const outcome of COUNTED) {
    const isBad = outcome === "indeterminate" || outcome === OTHER || outcome === EMPTY;
    thresholds[of(METRICS.calls, "outcome", outcome)] = [isBad ? "count==0" : "count>=0"];
  }
  for (const end of STREAM_ENDS) thresholds[of(METRICS.streams, "ended", end)] = ["count>=0"];
  for (const outcomes of seen) thresholds[of(METRICS.expected, "outcome", named(outcomes))] = ["count>0"];
  return thresholds;
};

/** The most unexpected answers that each VU logs; all of them are counted. */
const WARNED_MAX = 2;

type Counting = {
  /** `intendedUs`: when the call was due. */
  count(step: Step, answer: SseResponse, intendedUs: number): void;
  fault(message: string): void;
};

/** Call this in the init context, the only place where k6 creates metrics. */
export const createCounting = ({ seen, allowed }: Expected): Counting => {
  const calls = new Counter(METRICS.calls);
  const expected = new Counter(METRICS.expected);
  const streams = new Counter(METRICS.streams);
  const firstEvent = new Trend(METRICS.firstEvent, true);
  const latency = new Trend(METRICS.latency, true);
  const lag = new Trend(METRICS.lag, true);
  const faults = new Counter(METRICS.faults);
  let warned = 0;
  const surprise = (text: string): void => {
    warned += 1;
    if (warned <= WARNED_MAX) console.warn(text);
  };
  const countStream = (step: Step, answer: SseResponse, intendedUs: number): void => {
    streams.add(1, { ended: answer.ended });
    if (answer.first_event_us !== null) firstEvent.add((answer.first_event_us - intendedUs) / 1000);
    if (answer.aborted) return;
    const isWhole = isWholeAnswer(endingOf(answer)) && answer.late === 0;
    if (!isWhole) {
      surprise(
        `${step.route}: expected a stream with one last event; got ${answer.ended} after ${answer.events} events, ${answer.late} of them after its end`,
      );
    }
    check(isWhole, { [CHECKS.once]: (is) => is });
  };
  return {
    count: (step, answer, intendedUs) => {
      const outcome = outcomeOf(answer, step);
      const isKnown = COUNTED.includes(outcome);
      calls.add(1, { outcome: isKnown ? outcome : OTHER });
      latency.add(((answer.done_us as number) - intendedUs) / 1000);
      lag.add(Math.max(0, (answer.started_us as number) - intendedUs) / 1000);
      for (const outcomes of seen) {
        if (outcomes.includes(outcome)) expected.add(1, { outcome: named(outcomes) });
      }
      if (answer.opened) countStream(step, answer, intendedUs);
      if (outcome === "indeterminate") {
        surprise(`${step.route}: no answer (${answer.error || answer.ended})`);
        return;
      }
      const isAllowed = allowed === null || allowed.includes(outcome);
      if (!isKnown || !isAllowed) surprise(`${step.route}: ${outcome} was not expected`);
      check(outcome, { [CHECKS.legal]: () => isKnown });
      if (allowed !== null && isKnown) check(outcome, { [CHECKS.allowed]: () => isAllowed });
    },
    fault: (message) => {
      faults.add(1);
      surprise(message);
    },
  };
};

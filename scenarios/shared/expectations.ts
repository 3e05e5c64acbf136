/**
 * What a scenario that runs by itself has to show, as thresholds of k6, so that its exit code says whether it did. With the
 * runner the same calls are judged by the invariants, and there are no thresholds.
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
import { LATE_MS } from "../../src/workload/arrivals.ts";
import type { Step } from "../../src/workload/step.ts";
import type { Reach } from "../../src/workload/story.ts";
import { endingOf, outcomeOf } from "./calls.ts";

declare const console: { warn(text: string): void };

/** What a scenario knows beside its story, which says what has to be seen. */
export type Expectations = {
  /** All that may be met, beside what has to be seen; absent: whatever the contract has. */
  allowed?: readonly string[];
};

/** What is expected on this target, under this load. Plain data: it is shared between VUs. */
export type Expected = {
  /** At least one outcome of each list has to be met. */
  seen: readonly (readonly string[])[];
  allowed: readonly string[] | null;
};

export const expectedOn = ({ all, oneOf }: Reach, { allowed }: Expectations): Expected => ({
  seen: [...all.map((outcome) => [outcome]), ...(oneOf.length === 0 ? [] : [oneOf])],
  allowed: allowed === undefined ? null : [...allowed, ...all, ...oneOf],
});

/** How a list is named in a tag. */
const named = (outcomes: readonly string[]): string => outcomes.join(" or ");

const LEGAL = new Set([
  "200",
  "201",
  "204",
  ...OUTCOMES,
  ...(Object.keys(GAP_REFUSALS) as GapRefusalName[]).map(outcomeNamed),
]);
const OTHER = "outside the contract";

/** A stream without one event: no answer. */
const EMPTY = emptyOutcome(200);

/** How outcomes are counted: by name as far as the contract has it, so that there are finitely many. */
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
    // Arrivals that k6 had given up when its time was over, and those that left too late for a figure about time.
    dropped_iterations: ["count==0"],
    [METRICS.lag]: [`p(99)<${LATE_MS}`],
  };
  // k6 keeps a figure by tag only where a threshold asks for it.
  for (const outcome of COUNTED) {
    const isBad = outcome === "indeterminate" || outcome === OTHER || outcome === EMPTY;
    thresholds[of(METRICS.calls, "outcome", outcome)] = [isBad ? "count==0" : "count>=0"];
  }
  for (const end of STREAM_ENDS) thresholds[of(METRICS.streams, "ended", end)] = ["count>=0"];
  for (const outcomes of seen) thresholds[of(METRICS.expected, "outcome", named(outcomes))] = ["count>0"];
  return thresholds;
};

/** So many answers that were not expected are written out by each VU; all of them are counted. */
const WARNED_MAX = 2;

type Counting = {
  /** `intendedUs`: when it should have left. */
  count(step: Step, answer: SseResponse, intendedUs: number): void;
  fault(message: string): void;
};

/** In the init context: k6 makes metrics there alone. */
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

/**
 * How many calls a second a target admits while it is full. A bucket that is still full and slots that are still empty admit
 * more than that, so the caller gives the part of a ramp that is past the knee.
 *
 * Where a rate is limited: admitted calls over time. Where calls in flight are: mean in flight over mean stay (Little, "A
 * Proof for the Queuing Formula L = λW", Operations Research 9, 1961), which holds for streams that last longer than a step.
 */
import { type CallLine, classOf } from "../history/line.ts";
import { mean, mostAtOnce } from "../history/statistics/statistics.ts";

export const LATENCY = "latency";
/** Fewer calls say nothing. */
export const CALLS_MIN = 4;

export const isAdmitted = ({ outcome }: CallLine): boolean => classOf(outcome) === "answered";

type AdmittedRate = { perS: number; n: number; atMostPerS: number };

/** By Little's law, of calls that are refused because of those in flight. */
const byInFlight = (
  admitted: readonly CallLine[],
  began: readonly CallLine[],
  fromUs: number,
  toUs: number,
): AdmittedRate => {
  const overlapping = admitted.filter(({ sent_us: sent, done_us: done }) => done > fromUs && sent < toUs);
  let inFlightUs = 0;
  for (const { sent_us: sent, done_us: done } of overlapping) {
    inFlightUs += Math.min(done, toUs) - Math.max(sent, fromUs);
  }
  const counted = began.length >= CALLS_MIN ? began : overlapping;
  const stayS = (mean(counted.map(({ sent_us: sent, done_us: done }) => done - sent)) ?? 0) / 1e6;
  if (stayS === 0) return { perS: 0, n: 0, atMostPerS: 0 };
  const perS = inFlightUs / (toUs - fromUs) / stayS;
  // Between two arrivals a place may be empty: as many as ever were there at once are what would fit.
  return {
    perS,
    n: counted.length,
    atMostPerS: mostAtOnce(overlapping.map(({ sent_us: sent, done_us: done }) => [sent, done] as const)) / stayS,
  };
};

/** Calls per second that are admitted while the target is full, how many calls that is read from, and what may be missed. */
export const admittedRate = (calls: readonly CallLine[], fromUs: number, toUs: number, by: string): AdmittedRate => {
  const admitted = calls.filter(isAdmitted);
  const began = admitted.filter(({ intended_us: us }) => us >= fromUs && us < toUs);
  if (by !== "429 rate_limited" && by !== LATENCY) return byInFlight(admitted, began, fromUs, toUs);
  // Of a queue that grows, what goes out is what is carried.
  const counted = by === LATENCY ? admitted.filter(({ done_us: us }) => us >= fromUs && us < toUs) : began;
  const perS = (counted.length * 1e6) / (toUs - fromUs);
  return { perS, n: counted.length, atMostPerS: perS };
};

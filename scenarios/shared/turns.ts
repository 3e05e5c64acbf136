/**
 * Which arrival an iteration plays, and when that is due. The schedule is that of src/workload/arrivals.ts, kept once for all
 * VUs. On our own k6 the VU that came to rest last plays the next arrival (src/native/sse/turns.go); elsewhere each plays the
 * one of its own number.
 */
import { sleep } from "k6";
import { SharedArray } from "k6/data";
import exec from "k6/execution";
import sse from "k6/x/sse";
import { arrivalTimesUs } from "../../src/workload/arrivals.ts";
import type { HandOver } from "../../src/workload/handover.ts";
import { LEAD_MS } from "../../src/workload/k6-executor.ts";
import { hasAdditions } from "./extension.ts";

/** Waits for a moment, microseconds since 1970; false when the load was ended before it came. */
export const waitUntil = (us: number): boolean => {
  if (hasAdditions) return sse.waitUntil(us);
  const restS = us / 1e6 - Date.now() / 1000;
  if (restS > 0) sleep(restS);
  return true;
};

/** `n`: number of the arrival, from 0; `dueUs`: microseconds since 1970. */
export type Turn = { n: number; dueUs: number };

export type Turns = {
  /** Rests until shortly before an arrival is due; `null`: the load was ended before. */
  take(): Turn | null;
};

/** In the init context, where alone a file may be opened and a SharedArray made. */
export const turnsOf = ({ schedule, seed }: Pick<HandOver, "schedule" | "seed">): Turns => {
  const { profile, arrivals, startUs, momentsPath } = schedule;
  const momentsUs = (): number[] =>
    momentsPath === undefined ? arrivalTimesUs(profile, arrivals, seed) : (JSON.parse(open(momentsPath)) as number[]);
  let scenario: typeof exec.scenario | undefined;
  let zero = startUs;
  // k6 makes it anew whenever it is asked for.
  const current = () => {
    scenario ??= exec.scenario;
    return scenario;
  };
  const zeroUs = () => {
    zero ??= (current().startTime + LEAD_MS) * 1000;
    return zero;
  };
  if (hasAdditions) {
    sse.arrivals(momentsUs);
    return {
      take: () => {
        const n = sse.turn(current().iterationInTest, zeroUs());
        return n < 0 ? null : { n, dueUs: sse.turnUs() };
      },
    };
  }
  const afterUs = new SharedArray<number>("arrivals", momentsUs);
  return {
    take: () => {
      const n = current().iterationInTest;
      const after = afterUs[n];
      if (after === undefined) throw new Error("k6 began more iterations than the schedule has arrivals");
      return { n, dueUs: zeroUs() + after };
    },
  };
};

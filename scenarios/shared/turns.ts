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

/** In the init context: k6 makes a SharedArray there alone. */
export const turnsOf = ({ schedule, seed }: Pick<HandOver, "schedule" | "seed">): Turns => {
  const { profile, arrivals, startUs, momentsPath } = schedule;
  const afterUs = new SharedArray<number>("arrivals", () =>
    momentsPath === undefined ? arrivalTimesUs(profile, arrivals, seed) : (JSON.parse(open(momentsPath)) as number[]),
  );
  // k6 makes both anew whenever they are asked for.
  let scenario: typeof exec.scenario | undefined;
  let zeroUs = startUs;
  return {
    take: () => {
      scenario ??= exec.scenario;
      zeroUs ??= (scenario.startTime + LEAD_MS) * 1000;
      const own = scenario.iterationInTest;
      const after = afterUs[own];
      if (after === undefined) throw new Error("k6 began more iterations than the schedule has arrivals");
      if (!hasAdditions) return { n: own, dueUs: zeroUs + after };
      const n = sse.turn(own, zeroUs + after);
      return n < 0 ? null : { n, dueUs: sse.turnUs() };
    },
  };
};

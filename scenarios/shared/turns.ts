/**
 * When each iteration is due. The schedule is that of src/workload/arrivals.ts, kept once for all VUs; an iteration waits for
 * the moment of its own number, or begins at once where that is past.
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

export type Turns = {
  /** When this iteration is due, microseconds since 1970. */
  dueUs(): number;
};

/** In the init context: k6 makes a SharedArray there alone. */
export const turnsOf = ({ schedule, seed }: Pick<HandOver, "schedule" | "seed">): Turns => {
  const { profile, arrivals, startUs, momentsPath } = schedule;
  const afterUs = new SharedArray<number>("arrivals", () =>
    momentsPath === undefined ? arrivalTimesUs(profile, arrivals, seed) : (JSON.parse(open(momentsPath)) as number[]),
  );
  return {
    dueUs: () => {
      const zeroUs = startUs ?? (exec.scenario.startTime + LEAD_MS) * 1000;
      const after = afterUs[exec.scenario.iterationInTest];
      if (after === undefined) throw new Error("k6 began more iterations than the schedule has arrivals");
      return zeroUs + after;
    },
  };
};

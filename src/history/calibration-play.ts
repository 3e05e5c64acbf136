/**
 * What a calibration has to go by: the schedule that a driver was given, the lines that it wrote, and what the stub at the
 * other end stamped itself. All moments are microseconds of the run's clock. The stub knows the truth, because it made it.
 */
import type { CallLine } from "./line.ts";

/** How the stub answered: at once, after a known delay, or with events one after the other. */
export type StampKind = "at once" | "delayed" | "stream";

export type Stamp = {
  /** `X-Request-Id` as it came. */
  id: string;
  kind: StampKind;
  received_us: number;
  /** The answer was written, or the first event; and the last event. */
  answered_us: number;
  last_us: number;
};

export type CalibrationPlay = {
  driver: string;
  /** Microseconds after the start, ascending. */
  schedule: readonly number[];
  arrivals: "uniform" | "poisson";
  /** Calls per second in the first two phases, and in the third. */
  ratePerS: number;
  ceilingPerS: number;
  /**
   * After the start: from when on calls count, because a driver's first calls open connections and run cold; until when the stub
   * answers as it should; until when the stall and what came of it lasts.
   */
  warmUs: number;
  steadyUs: number;
  stalledUs: number;
  lines: readonly CallLine[];
  stamps: readonly Stamp[];
  /** How long the stub stood still, as it found itself, in microseconds. */
  stoodStillUs: number;
};

/** A call as the schedule meant it, the driver saw it and the stub saw it. */
export type Witnessed = { dueUs: number; line: CallLine; stamp: Stamp };

export type WitnessedPlay = {
  /** When arrival 0 was due, by the stub: the earliest start with which no call came before its time. */
  startUs: number;
  calls: Witnessed[];
};

/** The number of a call stands at the end of its id (workload/request.ts). */
const numberOf = (id: string): number => Number(/-(\d+)$/.exec(id)?.[1] ?? Number.NaN);

/** Pairs each call of the schedule with its line and its stamp. What lacks either is left out, and counted by its absence. */
export const witnessed = ({ schedule, lines, stamps }: CalibrationPlay): WitnessedPlay => {
  const byId = new Map(stamps.map((stamp) => [stamp.id, stamp]));
  const found = lines.flatMap((line) => {
    const stamp = byId.get(line.id);
    const offset = schedule[numberOf(line.id)];
    return stamp === undefined || offset === undefined ? [] : [{ offset, line, stamp }];
  });
  const startUs = found.reduce((least, { offset, stamp }) => Math.min(least, stamp.received_us - offset), Infinity);
  return { startUs, calls: found.map(({ offset, line, stamp }) => ({ dueUs: startUs + offset, line, stamp })) };
};

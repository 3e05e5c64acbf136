/** What the runner and the stub of a calibration say to each other, one JSON value a line. Moments are of the wall clock, in microseconds. */
import type { Stamp } from "../../history/calibration-play.ts";

export type StubPhases = {
  /** When the first call is due, in microseconds after the start of the schedule. */
  firstUs: number;
  /** After the start: from when on the stub stands still, and for how long; from when on it answers everything at once. */
  stallFromUs: number;
  stallUs: number;
  nullFromUs: number;
};

export type ToStub = { type: "phases"; phases: StubPhases } | { type: "report" };

export type StubReport = { stamps: Stamp[]; stoodStillUs: number };

export type FromStub = { type: "listening"; port: number } | { type: "ready" } | ({ type: "report" } & StubReport);

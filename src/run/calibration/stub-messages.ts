/** What the runner and the stub of a calibration say to each other, one JSON value a line. Moments are of the wall clock, in microseconds. */
import type { Stamp } from "../../history/calibration-checks.ts";

export type StubPhases = {
  /** When the first call is due, in microseconds after the start of the schedule. */
  firstUs: number;
  /** After the start: from when on the stub stands still, and for how long; from when on it answers everything at once. */
  stallFromUs: number;
  stallUs: number;
  nullFromUs: number;
};

export type ToStub = { type: "phases"; phases: StubPhases } | { type: "report" } | { type: "look" };

export type StubReport = { stamps: Stamp[]; stoodStillUs: number };

/** What came to the null server beside the stub since the last look: how many requests, and when the last of them. */
export type NullReport = { calls: number; lastUs: number };

export type FromStub =
  | { type: "listening"; port: number; nullPort: number }
  | { type: "ready" }
  | ({ type: "report" } & StubReport)
  | ({ type: "seen" } & NullReport);

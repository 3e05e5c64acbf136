/** The input of a k6 scenario and the lines that it prints. Both sides compute a call's step from its number. */
import type { StatedStreamEnds, StreamEnd } from "../contract/streams.ts";
import type { Arrivals } from "./arrivals.ts";
import type { Budget, Spent, Stopped } from "./budget.ts";
import type { TargetView } from "./callers/target-view.ts";
import type { Profile } from "./load-profiles.ts";
import type { Places } from "./request.ts";
import type { SessionWanted } from "./step.ts";
import type { Timeouts } from "./timeouts.ts";

/** Times in milliseconds since 1970. */
export type HeldSession = { token: string; renewAtMs: number; endsAtMs: number };

export type HandOver = {
  stage: string;
  idPrefix: string;
  seed: number;
  view: TargetView;
  /**
   * `startUs`: microseconds since 1970 at the schedule's zero, shared by several k6; absent: when k6's scenario starts.
   * `momentsPath`: the file with a trace's moments, which each VU would copy otherwise.
   */
  schedule: { profile: Profile; arrivals: Arrivals; startUs?: number; momentsPath?: string };
  places: Places;
  /** Secrets by `credentialName`. */
  credentials: Record<string, string>;
  /** Minted beforehand, by `credentialName`; absent when k6 runs alone. */
  sessions?: Record<string, HeldSession>;
  /** Listed origins by caller. */
  origins: Record<string, string>;
  headers: Record<string, string>;
  timeouts: Timeouts;
  streamEnd?: StatedStreamEnds;
  options: Record<string, unknown>;
  /** Absent: unbounded. `stated`: the whole budget of the target file, of which `budget` is a share or the rest. */
  budget?: Budget;
  stated?: Budget;
  /** Where k6 writes its summary and the scenario its lines; absent when k6 runs alone. */
  summaryPath?: string;
  printPath?: string;
  /** The most concurrent async calls; absent: each VU waits for its call. */
  callsAtOnce?: number;
  /** False: gaps between events become no k6 samples, which k6 would keep until its end; the lines have the gaps. */
  gapSamples?: boolean;
};

/** One attempt of one step, as printed. Times are microseconds since 1970 and mean what they do in history/line.ts. */
export type Printed = {
  type: "call";
  i: number;
  step: number;
  attempt: number;
  intendedUs: number;
  startedUs: number;
  connectUs: number;
  sentUs: number | null;
  firstUs: number | null;
  firstEventUs: number | null;
  lastEventUs: number | null;
  doneUs: number;
  status: number;
  ended: StreamEnd;
  opened: boolean;
  events: number;
  late: number;
  names: string[];
  /** Microseconds between consecutive events. */
  gaps: number[];
  /** A code of contract/transport-codes.ts if one fits; "" if nothing broke. */
  error: string;
  retryAfter?: string;
  coding?: string;
  /** The part of the body that names the outcome; never a token. */
  body: string;
  aborted: boolean;
};

/** A call that minted a session; not a call of the story. */
export type PrintedMint = Omit<Printed, "type" | "i" | "step" | "attempt" | "intendedUs"> &
  SessionWanted & { type: "mint" /** Sent as `X-Request-Id`. */; id: string };

/** An error of the scenario, not of the target; `lacks`: a credential was missing. */
export type PrintedFault = { type: "fault"; i: number; message: string; lacks?: true };

/** An iteration for which the story plans no call: another story plays the one of that number. */
export type PrintedNothing = { type: "nothing"; i: number };

/** The first line of a part of a distributed run, by which `report --merge` joins the parts. */
export type PrintedPart = {
  type: "part";
  story: string;
  seed: number;
  idPrefix: string;
  view: TargetView;
  profile: Profile;
  arrivals: Arrivals;
  /** The target file as far as judges read it, without its secrets. */
  target: Record<string, unknown>;
  /** When the line was written, before the first call was due; microseconds since 1970. */
  atUs: number;
};

/** The last line: what was sent, as counted by the extension that sent it. */
export type PrintedSpent = {
  type: "spent";
  spent: Spent;
  /** Calls that the budget stopped. */
  unsent: number;
  /** Calls cut off by the end of the test, which have no line. */
  cut: number;
  /** The most concurrent calls. */
  most: number;
  http1: number;
  http2: number;
  stopped: Stopped | null;
};

/** Stands for each secret in a scenario that is only archived and sends nothing. */
export const PLACEHOLDER = "floodgate-archived-without-secrets";

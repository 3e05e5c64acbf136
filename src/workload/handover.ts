/**
 * What the runner hands to a k6 scenario, in a file that only its owner may read, and what a scenario prints for each
 * call. Both sides compute the step of a call from its number, so neither has to say what was meant to be sent.
 */
import type { StatedStreamEnds, StreamEnd } from "../contract/streams.ts";
import type { Arrivals } from "./arrivals.ts";
import type { Budget, Spent, Stopped } from "./budget.ts";
import type { TargetView } from "./callers/target-view.ts";
import type { Profile } from "./load-profiles.ts";
import type { Places } from "./request.ts";
import type { SessionWanted } from "./story.ts";
import type { Timeouts } from "./timeouts.ts";

/** A session token, and when it is to be minted anew; milliseconds since 1970. */
export type HeldSession = { token: string; renewAtMs: number; endsAtMs: number };

export type HandOver = {
  stage: string;
  idPrefix: string;
  seed: number;
  /** Number of the first call. */
  firstCall: number;
  view: TargetView;
  /**
   * When each iteration is due. `startUs`: microseconds since 1970 of its zero, so that several k6 share one; where it is absent
   * the schedule begins with k6's scenario. `momentsPath`: where the moments of a trace lie, which each VU would keep otherwise.
   */
  schedule: { profile: Profile; arrivals: Arrivals; startUs?: number; momentsPath?: string };
  places: Places;
  /** Secrets by `credentialName`. */
  credentials: Record<string, string>;
  /** Sessions that were minted beforehand, by `credentialName`; absent where k6 runs by itself. */
  sessions?: Record<string, HeldSession>;
  /** Listed origins by caller. */
  origins: Record<string, string>;
  headers: Record<string, string>;
  timeouts: Timeouts;
  /** The event that ends a whole stream of each kind, as far as the target file states it. */
  streamEnd?: StatedStreamEnds;
  /** k6's own options: executor, rates, VUs. */
  options: Record<string, unknown>;
  /** What k6 may spend and how fast; not bounded where absent. */
  budget?: Budget;
  /** The whole of which `budget` is a share or a rest. */
  stated?: Budget;
  /** Where the runner looks for k6's own figures, and for what the scenario prints; absent where k6 runs by itself. */
  summaryPath?: string;
  printPath?: string;
  /** How many calls may be under way at once beside the VUs; absent: each is waited for by its VU. */
  callsAtOnce?: number;
  /** False: gaps between events are no samples of k6, which would keep each for its summary; the lines have them. */
  gapSamples?: boolean;
};

/** One attempt of one step, as printed. Times are microseconds since 1970. */
export type Printed = {
  type: "call";
  i: number;
  step: number;
  attempt: number;
  /** As in the history (history/line.ts). */
  intendedUs: number;
  startedUs: number;
  /** 0 when a connection was there. */
  connectUs: number;
  /** `null` when it was never written. */
  sentUs: number | null;
  firstUs: number | null;
  firstEventUs: number | null;
  lastEventUs: number | null;
  doneUs: number;
  status: number;
  ended: StreamEnd;
  /** A stream began. */
  opened: boolean;
  events: number;
  late: number;
  names: string[];
  /** Microseconds between each two events. */
  gaps: number[];
  error: string;
  /** The same as a word of contract/transport-codes.ts; absent where there is none for it. */
  code?: string;
  retryAfter?: string;
  /** `Content-Encoding`, where there is one. */
  coding?: string;
  /** The part of the body that an outcome is named by; never a token. */
  body: string;
  aborted: boolean;
};

/** A call that minted a session anew: no call of the story. */
export type PrintedMint = Omit<Printed, "type" | "i" | "step" | "attempt" | "intendedUs"> &
  SessionWanted & { type: "mint" /** Sent as `X-Request-Id`. */; id: string };

/** The scenario itself failed: a fault of ours, never of the target; or (`lacks`) it had no credential to go on with. */
export type PrintedFault = { type: "fault"; i: number; message: string; lacks?: true };

/** The last line: what left, by the count of the extension that sent it. */
export type PrintedSpent = {
  type: "spent";
  spent: Spent;
  /** Calls that the budget did not let leave. */
  unsent: number;
  /** Calls that left and that the end of the test cut off: they have no line. */
  cut: number;
  /** Calls that were under way at once, at most. */
  most: number;
  /** Answers by the version of HTTP that they came by. */
  http1: number;
  http2: number;
  stopped: Stopped | null;
};

/** In place of a secret where a scenario is only archived and sends nothing. */
export const PLACEHOLDER = "floodgate-archived-without-secrets";

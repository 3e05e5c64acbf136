/** What came of one request, in the same shape whether our own extension of k6 sent it or the community's. */
import type { LastEvent } from "../../src/contract/streams.ts";
import type { Printed } from "../../src/workload/handover.ts";
import type { Timeouts } from "../../src/workload/timeouts.ts";

export type Answer = Pick<
  Printed,
  | "startedUs"
  | "connectUs"
  | "sentUs"
  | "firstUs"
  | "firstEventUs"
  | "lastEventUs"
  | "doneUs"
  | "status"
  | "opened"
  | "events"
  | "late"
  | "names"
  | "gaps"
  | "error"
  | "body"
  | "aborted"
> & {
  /** Microseconds that the budget held it back. */
  heldUs: number;
  ended: Printed["ended"] | "not_sent";
  retryAfter: string | undefined;
  /** `Content-Encoding`. */
  coding: string | undefined;
  /** The answer has a body that this k6 could not read, so that nobody knows its subcode. */
  isUnread: boolean;
};

/** Which call of the run it was, and when it should have left, microseconds since 1970. */
export type CallMade = { i: number; step: number; attempt: number; intendedUs: number };

/** What requests of a kind have in common. */
export type RequestKind = {
  method: string;
  name: string;
  stream: LastEvent | undefined;
  charges: "map_loads" | "analyses" | undefined;
  timeouts: Timeouts;
  abortAfterEvents: number | undefined;
  slowReadMs: number | undefined;
  /** Gaps between events as samples of k6 too. */
  gapSamples: boolean;
};

/** What is to be sent, host and credential put in. */
export type Outgoing = {
  kind: RequestKind;
  url: string;
  headers: Record<string, string>;
  body: string | undefined;
};

/**
 * When the server can have handled a call: between its sending and end by the caller's clock, each widened by the clock's
 * error. A judge accuses only by what holds for every moment in between.
 */
import { SHED_OUTCOMES } from "../../contract/refusals.ts";
import { Heap } from "../../history/heap.ts";
import { type CallLine, type Line, lineTimeUs } from "../../history/line.ts";
import type { StageFacts } from "../../history/run-document.ts";

export const earliestUs = (call: CallLine): number => call.sent_us - call.clock_error_us;
export const latestUs = (call: CallLine): number => call.done_us + call.clock_error_us;

/** The latest time at which the call can have been decided: when its first byte came. */
export const decidedByUs = (call: CallLine): number => (call.first_us ?? call.done_us) + call.clock_error_us;

/** Reports whether the platform itself answered. */
export const isDefinite = (call: CallLine) => call.outcome !== "indeterminate" && !call.outcome.startsWith("edge ");

/** An answer of the API itself with a 5xx other than 503, which alone is specified (item 223). */
export const isServerError = ({ outcome }: CallLine): boolean => /^5(?!03)\d\d\b/.test(outcome);

/** 2xx, including a failure reported in the body. */
export const isAdmitted = (call: CallLine): boolean => /^2\d\d/.test(call.outcome);

export const isShed = ({ outcome }: CallLine): boolean => SHED_OUTCOMES.has(outcome);

/** The reference platform is held to this project's reading of each gap in the specification. */
export const isReference = (facts: Pick<StageFacts, "reference">): boolean => facts.reference === true;

/** Whether the organization is unknown: no valid credential, or a role whose organization the target file does not name. */
export const isUnnamed = (org: string): boolean => org === "-" || org.startsWith("role:");

/** `service`: an operator's changes, such as the service time. */
const DEPENDENCIES = new Set(["limiter", "keys", "edge", "service"]);

/** Whether the number of replicas changes or a replica is broken. */
export const changesReplicas = (line: Line): boolean => {
  if (line.type === "mark") return line.name === "replicas-changed";
  return line.type === "fault" && (!DEPENDENCIES.has(line.link) || line.fault === "rolling-deploy");
};

export const changesCaps = (line: Line): boolean => line.type === "mark" && line.name === "caps-changed";

/** The largest error of a mark or fault line. */
export const MARK_MARGIN_US = 1_000_000;

/** Delivers calls in order of completion, after all marks (faults, capacity changes) that could overlap them. */
export const openSettling = (settle: (call: CallLine) => void) => {
  const waiting = new Heap<CallLine>();
  const settleBefore = (us: number): void => {
    while (waiting.size > 0 && waiting.least < us) settle(waiting.pop() as CallLine);
  };
  return {
    add: (call: CallLine): void => waiting.push(latestUs(call), call),
    waiting: (): Iterable<CallLine> => waiting.items(),
    reach: (line: Line): void => settleBefore(lineTimeUs(line) - MARK_MARGIN_US),
    finish: (): void => settleBefore(Number.POSITIVE_INFINITY),
  };
};

export type Settling = ReturnType<typeof openSettling>;

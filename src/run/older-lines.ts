/**
 * The history of a run that was recorded before a call had all of its times, or errors had words of our own, read as it is written
 * now. Then `sent_us` stood for
 * the moment at which a call was handed to the transport, and `first_us` of a stream for its first event.
 */
import { transportCode } from "../contract/transport-codes.ts";
import type { CallLine, Line } from "../history/line.ts";
import { jsonLines } from "./read-lines.ts";

type OlderCall = Omit<CallLine, "started_us" | "connect_us" | "attempt"> & { started_us?: number };

/** How ids end: workload/request.ts, client/api-client.ts, scenarios/shared/sessions.ts. */
const MINTED = /-(?:s\d+|v\d+s\d+)$/;
const REPEATED = /r(\d+)$/;
const LATER_STEP = /-\d+_\d+(?:r\d+)?$/;

const made = (id: string): Pick<CallLine, "attempt" | "unscheduled"> => {
  if (MINTED.test(id)) return { attempt: 0, unscheduled: "mint" };
  const attempt = Number(REPEATED.exec(id)?.[1] ?? 0);
  return LATER_STEP.test(id) ? { attempt, unscheduled: "step" } : { attempt };
};

/** A line of today stays as it is. */
export const withAllTimes = (line: Line): Line => {
  if (line.type !== "call") return line;
  const named: CallLine = line.error === undefined ? line : { ...line, error: transportCode(line.error) };
  const older: OlderCall = named;
  if (older.started_us !== undefined) return named;
  const { first_us: firstUs, events = 0, ended } = older;
  const isStream = ended !== undefined && firstUs !== null && events > 0;
  return {
    ...older,
    started_us: older.sent_us,
    connect_us: 0,
    ...(isStream ? { first_event_us: firstUs } : {}),
    ...made(older.id),
  };
};

/** Every line of a recorded `history.ndjson`, in the order in which they were written. */
export function* historyLines(path: string): Generator<Line> {
  for (const line of jsonLines<Line>(path)) yield withAllTimes(line);
}

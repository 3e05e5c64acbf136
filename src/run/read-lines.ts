/** Reads recorded lines in blocks, because a soak's history exceeds the longest string, and updates older formats. */
import { closeSync, readSync } from "node:fs";
import { ERROR_IN_STREAM, OUTCOMES } from "../contract/refusals.ts";
import { transportCode } from "../contract/transport-codes.ts";
import type { CallLine, Line } from "../history/line.ts";
import type { StageSummary } from "../history/run-document.ts";
import { openUserFile, UserFileError } from "../supervision/user-file.ts";

type OlderCall = Omit<CallLine, "started_us" | "connect_us" | "attempt"> & { started_us?: number };

/** How calls' ids end; made by workload/request.ts, client/api-client.ts, scenarios/shared/sessions.ts. */
const MINTED = /-(?:s\d+|v\d+s\d+)$/;
const REPEATED = /r(\d+)$/;
const LATER_STEP = /-\d+_\d+(?:r\d+)?$/;

const made = (id: string): Pick<CallLine, "attempt" | "unscheduled"> => {
  if (MINTED.test(id)) return { attempt: 0, unscheduled: "mint" };
  const attempt = Number(REPEATED.exec(id)?.[1] ?? 0);
  return LATER_STEP.test(id) ? { attempt, unscheduled: "step" } : { attempt };
};

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

const KNOWN: ReadonlySet<string> = new Set(OUTCOMES);

export const outcomeName = (line: Line): string | null => {
  if (line.type === "fold") return line.offered > 0 && KNOWN.has(line.outcome) ? line.outcome : null;
  if (line.type !== "call") return null;
  const name = line.ended === "error_event" ? ERROR_IN_STREAM : line.outcome;
  return KNOWN.has(name) ? name : null;
};

export const outcomesSeen = (
  lines: Iterable<Line>,
  counted: readonly Pick<StageSummary, "by_outcome">[] = [],
): number => {
  const names = counted.flatMap(({ by_outcome }) => Object.keys(by_outcome)).filter((name) => KNOWN.has(name));
  const seen = new Set<string | null>(names);
  for (const line of lines) seen.add(outcomeName(line));
  seen.delete(null);
  return seen.size;
};

const BLOCK_BYTES = 1 << 20;
const LINE_END = 10;

/** Yields whole lines, many at a time, between two byte offsets of a file; at last the rest without a line end. */
export function* textBlocks(path: string, from = 0, to = Number.POSITIVE_INFINITY): Generator<string> {
  const file = openUserFile(path).descriptor;
  try {
    const block = Buffer.alloc(BLOCK_BYTES);
    const held: Buffer[] = [];
    for (let at = from; ; ) {
      const bytes = readSync(file, block, 0, Math.min(BLOCK_BYTES, to - at), at);
      if (bytes === 0) break;
      at += bytes;
      const end = block.lastIndexOf(LINE_END, bytes - 1) + 1;
      if (end > 0) yield Buffer.concat([...held.splice(0), block.subarray(0, end)]).toString("utf8");
      held.push(Buffer.from(block.subarray(end, bytes)));
    }
    const rest = Buffer.concat(held).toString("utf8");
    if (rest !== "") yield rest;
  } finally {
    closeSync(file);
  }
}

/** Parses a line; the error quotes nothing of the line, which may hold a key. */
const jsonOf = (line: string, path: string): unknown => {
  try {
    return JSON.parse(line);
  } catch {
    throw new UserFileError(`${path}: a line of it is not JSON`);
  }
};

/** Yields each line as JSON, without a last incomplete line, which a killed run may leave. */
export function* jsonLines<T>(path: string, from?: number, to?: number): Generator<T> {
  for (const text of textBlocks(path, from, to)) {
    for (const line of text.slice(0, text.lastIndexOf("\n") + 1).split("\n")) {
      if (line !== "") yield jsonOf(line, path) as T;
    }
  }
}

/** Which of the specification's outcomes a run has seen (`coverage` in `run.json`). */
import { ERROR_IN_STREAM, OUTCOMES } from "../contract/refusals.ts";
import type { Line } from "../history/line.ts";

const KNOWN: ReadonlySet<string> = new Set(OUTCOMES);

/** One of the specification's outcomes, or `null`. */
export const outcomeName = (line: Line): string | null => {
  if (line.type !== "call") return null;
  const name = line.ended === "error_event" ? ERROR_IN_STREAM : line.outcome;
  return KNOWN.has(name) ? name : null;
};

export const outcomesSeen = (lines: Iterable<Line>): number => {
  const seen = new Set<string>();
  for (const line of lines) {
    const name = outcomeName(line);
    if (name !== null) seen.add(name);
  }
  return seen.size;
};

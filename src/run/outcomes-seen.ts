/** Which of the specification's outcomes a run has seen (`coverage` in `run.json`). */
import { OUTCOMES } from "../contract/refusals.ts";
import type { Line } from "../history/line.ts";

const KNOWN: ReadonlySet<string> = new Set(OUTCOMES);

/** One of the specification's outcomes, or `null`. Both failures that travel under 200 are counted as `200 error`; how the stream ended separates them. */
export const outcomeName = (line: Line): string | null => {
  if (line.type !== "call") return null;
  const name = line.ended === "error_event" ? "200 error event" : line.outcome;
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

/** Which of the specification's outcomes a run has seen (`coverage` in `run.json`). */
import { ERROR_IN_STREAM, OUTCOMES } from "../contract/refusals.ts";
import type { Line } from "../history/line.ts";
import type { StageSummary } from "../history/run-document.ts";

const KNOWN: ReadonlySet<string> = new Set(OUTCOMES);

/** One of the specification's outcomes, or `null`. */
export const outcomeName = (line: Line): string | null => {
  if (line.type === "fold") return line.offered > 0 && KNOWN.has(line.outcome) ? line.outcome : null;
  if (line.type !== "call") return null;
  const name = line.ended === "error_event" ? ERROR_IN_STREAM : line.outcome;
  return KNOWN.has(name) ? name : null;
};

/** Those of a stage of which only totals are known. */
const outcomesCounted = ({ by_outcome }: Pick<StageSummary, "by_outcome">): string[] =>
  Object.keys(by_outcome).filter((name) => KNOWN.has(name));

/** `counted`: stages that have no lines. */
export const outcomesSeen = (
  lines: Iterable<Line>,
  counted: readonly Pick<StageSummary, "by_outcome">[] = [],
): number => {
  const seen = new Set(counted.flatMap(outcomesCounted));
  for (const line of lines) {
    const name = outcomeName(line);
    if (name !== null) seen.add(name);
  }
  return seen.size;
};

/**
 * In which month of the meters a call was charged, as far as that is known: numbered from the stage's start, with a doubt
 * around each edge. Edges come from the calendar (UTC, item 229), where the run's start is known, and from `new-month`
 * marks, where a deployment's clock was moved.
 */
import type { CallLine, Line } from "../../history/line.ts";
import type { StageFacts } from "../../history/stage-facts.ts";
import { earliestUs, latestUs, MARK_MARGIN_US } from "./moments.ts";

/** How far a deployment's clock may be off. */
const CLOCK_DOUBT_US = 5_000_000;
/** A run is shorter than this many months. */
const MONTHS_AHEAD = 3;

type Edge = { fromUs: number; toUs: number };

const calendarEdges = (startedAtMs: number): Edge[] => {
  const started = new Date(startedAtMs);
  const edges: Edge[] = [];
  for (let ahead = 1; ahead <= MONTHS_AHEAD; ahead += 1) {
    const atUs = (Date.UTC(started.getUTCFullYear(), started.getUTCMonth() + ahead, 1) - startedAtMs) * 1000;
    edges.push({ fromUs: atUs - CLOCK_DOUBT_US, toUs: atUs + CLOCK_DOUBT_US });
  }
  return edges;
};

export class Months {
  readonly #edges: Edge[];

  constructor({ started_at_ms }: StageFacts) {
    this.#edges = started_at_ms === undefined ? [] : calendarEdges(started_at_ms);
  }

  see(line: Line): void {
    if (line.type === "mark" && line.name === "new-month") {
      this.#edges.push({ fromUs: line.at_us - MARK_MARGIN_US, toUs: line.at_us });
    }
  }

  /** The number of the first and the last month that the call can be charged in. */
  of(call: CallLine): { first: number; last: number } {
    let first = 0;
    let last = 0;
    for (const { fromUs, toUs } of this.#edges) {
      if (earliestUs(call) > toUs) first += 1;
      if (latestUs(call) >= fromUs) last += 1;
    }
    return { first, last };
  }
}

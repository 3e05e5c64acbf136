/**
 * Sorts lines by their times without holding all of them: a line comes late by the length of its call. A first pass finds the
 * largest lateness; the second holds only lines that recent.
 */
import { Heap } from "./heap.ts";
import { type Line, lineTimeUs } from "./line.ts";

/** The largest time by which a line is older than a line before it. */
export class Lateness {
  us = 0;
  #newestUs = Number.NEGATIVE_INFINITY;

  see(line: Line): void {
    this.#newestUs = Math.max(this.#newestUs, lineTimeUs(line));
    this.us = Math.max(this.us, this.#newestUs - lineTimeUs(line));
  }
}

/** `lateUs`: the lateness of the lines, or more. Lines of one moment stay in the order in which they came. */
export function* inTimeOrder(lines: Iterable<Line>, lateUs: number): Generator<Line> {
  const waiting = new Heap<Line>();
  let [newestUs, came] = [Number.NEGATIVE_INFINITY, 0];
  for (const line of lines) {
    waiting.push(lineTimeUs(line), line, came++);
    newestUs = Math.max(newestUs, lineTimeUs(line));
    // No later line can overtake these any more.
    while (waiting.least <= newestUs - lateUs) yield waiting.pop() as Line;
  }
  while (waiting.size > 0) yield waiting.pop() as Line;
}

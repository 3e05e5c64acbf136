/**
 * Lines in the order of their times, without holding all of them: a line is written when its call has ended, so it comes as late
 * as its call took. A first pass finds how late lines came; the second holds only as many as overtook one.
 */
import { Heap } from "./heap.ts";
import { type Line, lineTimeUs } from "./line.ts";

/** How far behind the newest line an older one came, at most. */
export class Lateness {
  /** Microseconds. */
  us = 0;
  #newestUs = Number.NEGATIVE_INFINITY;

  see(line: Line): void {
    this.#newestUs = Math.max(this.#newestUs, lineTimeUs(line));
    this.us = Math.max(this.us, this.#newestUs - lineTimeUs(line));
  }
}

/** `lateUs`: the lateness of the lines, or more. Lines of one moment stay in the order in which they came. */
export class TimeOrder {
  readonly #lateUs: number;
  readonly #waiting = new Heap<Line>();
  #newestUs = Number.NEGATIVE_INFINITY;
  #came = 0;

  constructor(lateUs: number) {
    this.#lateUs = lateUs;
  }

  /** Gives the lines that no later one can overtake any more. */
  *push(line: Line): Generator<Line> {
    const atUs = lineTimeUs(line);
    this.#waiting.push(atUs, line, this.#came++);
    this.#newestUs = Math.max(this.#newestUs, atUs);
    while (this.#waiting.least <= this.#newestUs - this.#lateUs) yield this.#waiting.pop() as Line;
  }

  *rest(): Generator<Line> {
    while (this.#waiting.size > 0) yield this.#waiting.pop() as Line;
  }
}

export function* inTimeOrder(lines: Iterable<Line>, lateUs: number): Generator<Line> {
  const order = new TimeOrder(lateUs);
  for (const line of lines) yield* order.push(line);
  yield* order.rest();
}

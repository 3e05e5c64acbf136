/** How long callers waited, by rank and in bounded memory: to the letter for a stage, to 0.4 % for a soak. */
import { Histogram } from "./histogram.ts";

/** So many times are kept as they are. */
const EXACT_MAX = 100_000;

export class WaitedTimes {
  #exact: number[] | null = [];
  readonly #many = new Histogram();
  #never = 0;

  /** Milliseconds; `Infinity` for what never came. */
  add(ms: number): void {
    if (ms === Number.POSITIVE_INFINITY) this.#never += 1;
    else if (this.#exact === null) this.#many.record(ms * 1000);
    else if (this.#exact.push(ms) > EXACT_MAX) {
      for (const each of this.#exact) this.#many.record(each * 1000);
      this.#exact = null;
    }
  }

  /** All of a histogram of microseconds. */
  merge(all: Histogram): void {
    for (const ms of this.#exact?.splice(0) ?? []) this.#many.record(ms * 1000);
    this.#exact = null;
    this.#many.merge(all);
  }

  get n(): number {
    return (this.#exact?.length ?? this.#many.n) + this.#never;
  }

  /** The wait at `rank` (1 is the shortest) lies in [low, high]; `undefined` for a rank that none has. */
  at(rank: number): { low: number; value: number; high: number } | undefined {
    if (rank < 1 || rank > this.n) return undefined;
    const all = (ms: number) => ({ low: ms, value: ms, high: ms });
    if (rank > this.n - this.#never) return all(Number.POSITIVE_INFINITY);
    if (this.#exact !== null) return all(this.#exact.sort((a, b) => a - b)[rank - 1] as number);
    const { low, value, high } = this.#many.atRank(rank) as NonNullable<ReturnType<Histogram["atRank"]>>;
    return { low: low / 1000, value: value / 1000, high: high / 1000 };
  }
}

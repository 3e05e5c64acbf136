/** A binary heap: lines come in the order in which calls were sent, but much is decided in the order in which they ended. */
export class Heap<T> {
  readonly #entries: { key: number; tie: number; item: T }[] = [];

  get size(): number {
    return this.#entries.length;
  }

  /** The smallest key, `Infinity` when empty. */
  get least(): number {
    return this.#entries[0]?.key ?? Number.POSITIVE_INFINITY;
  }

  /** Entries with equal keys leave in the order of `tie`. */
  push(key: number, item: T, tie = 0): void {
    const entries = this.#entries;
    let at = entries.push({ key, tie, item }) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.#before(at, parent)) break;
      this.#swap(at, parent);
      at = parent;
    }
  }

  pop(): T | undefined {
    const entries = this.#entries;
    const first = entries[0];
    const last = entries.pop();
    if (first === undefined || last === undefined) return undefined;
    if (entries.length > 0) {
      entries[0] = last;
      this.#sink();
    }
    return first.item;
  }

  *items(): Generator<T> {
    for (const { item } of this.#entries) yield item;
  }

  #sink(): void {
    for (let at = 0; ; ) {
      const left = 2 * at + 1;
      if (left >= this.#entries.length) return;
      const right = left + 1;
      const child = right < this.#entries.length && this.#before(right, left) ? right : left;
      if (!this.#before(child, at)) return;
      this.#swap(at, child);
      at = child;
    }
  }

  #before(a: number, b: number): boolean {
    const one = this.#entries[a] as { key: number; tie: number };
    const other = this.#entries[b] as { key: number; tie: number };
    return one.key === other.key ? one.tie < other.tie : one.key < other.key;
  }

  #swap(a: number, b: number): void {
    const entries = this.#entries;
    const kept = entries[a] as (typeof entries)[number];
    entries[a] = entries[b] as (typeof entries)[number];
    entries[b] = kept;
  }
}

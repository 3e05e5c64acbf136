/** A binary heap: calls come in the order of sending, but much is judged in the order in which they end. */
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
    const entry = { key, tie, item };
    let at = entries.push(entry) - 1;
    for (let parent = (at - 1) >> 1; at > 0 && this.#compare(parent, entry) > 0; parent = (at - 1) >> 1) {
      entries[at] = entries[parent] as typeof entry;
      at = parent;
    }
    entries[at] = entry;
  }

  pop(): T | undefined {
    const entries = this.#entries;
    const first = entries[0];
    const last = entries.pop();
    if (last === undefined || entries.length === 0) return last?.item;
    let at = 0;
    for (let child = 1; child < entries.length; child = 2 * at + 1) {
      if (child + 1 < entries.length && this.#compare(child, entries[child + 1] as typeof last) > 0) child += 1;
      if (this.#compare(child, last) >= 0) break;
      entries[at] = entries[child] as typeof last;
      at = child;
    }
    entries[at] = last;
    return first?.item;
  }

  *items(): Generator<T> {
    for (const { item } of this.#entries) yield item;
  }

  #compare(at: number, { key, tie }: { key: number; tie: number }): number {
    const one = this.#entries[at] as { key: number; tie: number };
    return one.key - key || one.tie - tie;
  }
}

/** Sums in a table of two keys: what for, and whose. */
export class Sums {
  readonly #rows = new Map<string, Map<string, number>>();

  add(row: string, column: string, amount: number): void {
    const columns = this.#rows.get(row) ?? new Map<string, number>();
    this.#rows.set(row, columns.set(column, (columns.get(column) ?? 0) + amount));
  }

  of(row: string, column: string): number {
    return this.#rows.get(row)?.get(column) ?? 0;
  }

  /** Adds the cells of another table to this one. */
  with(other: Sums): this {
    for (const [row, column] of other.cells()) this.add(row, column, other.of(row, column));
    return this;
  }

  rows(): string[] {
    return [...this.#rows.keys()];
  }

  columns(row: string): string[] {
    return [...(this.#rows.get(row)?.keys() ?? [])];
  }

  /** Every cell that was ever added to. */
  *cells(): Generator<[row: string, column: string]> {
    for (const [row, columns] of this.#rows) for (const column of columns.keys()) yield [row, column];
  }
}

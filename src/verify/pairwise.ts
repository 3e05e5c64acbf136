/** All-pairs testing: a small set of rows in which every pair of values of any two factors occurs. Greedy and deterministic. */

type Factors = Readonly<Record<string, readonly unknown[]>>;
type RowOf<F extends Factors> = { [K in keyof F]: F[K][number] };

const product = <F extends Factors>(factors: F): RowOf<F>[] =>
  Object.entries(factors).reduce<Record<string, unknown>[]>(
    (rows, [name, values]) => rows.flatMap((row) => values.map((value) => ({ ...row, [name]: value }))),
    [{}],
  ) as RowOf<F>[];

export const pairwise = <F extends Factors>(factors: F): RowOf<F>[] => {
  const names = Object.keys(factors);
  const index = new Map(names.map((name) => [name, new Map((factors[name] ?? []).map((value, i) => [value, i]))]));
  const pairsOf = (row: RowOf<F>): string[] => {
    const at = (name: string): number => index.get(name)?.get(row[name]) ?? 0;
    if (names.length === 1) return [`${at(names[0] as string)}`];
    return names.flatMap((a, i) => names.slice(i + 1).map((b) => `${a} ${at(a)} ${b} ${at(b)}`));
  };
  const rows = product(factors).map((row) => ({ row, pairs: pairsOf(row) }));
  const open = new Set(rows.flatMap(({ pairs }) => pairs));
  const chosen: RowOf<F>[] = [];
  while (open.size > 0) {
    let best = rows[0];
    let gain = 0;
    for (const candidate of rows) {
      const fresh = candidate.pairs.reduce((n, pair) => n + (open.has(pair) ? 1 : 0), 0);
      if (fresh > gain) [best, gain] = [candidate, fresh];
    }
    if (best === undefined || gain === 0) break;
    for (const pair of best.pairs) open.delete(pair);
    chosen.push(best.row);
  }
  return chosen;
};

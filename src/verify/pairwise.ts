/** All-pairs testing: few rows in which every pair of values of any two factors occurs; greedy, deterministic. */

type Factors = Readonly<Record<string, readonly unknown[]>>;
type RowOf<F extends Factors> = { [K in keyof F]: F[K][number] };

const product = <F extends Factors>(factors: F): RowOf<F>[] =>
  Object.entries(factors).reduce<Record<string, unknown>[]>(
    (rows, [name, values]) => rows.flatMap((row) => values.map((value) => ({ ...row, [name]: value }))),
    [{}],
  ) as RowOf<F>[];

export const pairwise = <F extends Factors>(factors: F): RowOf<F>[] => {
  const rows = product(factors).map((row) => {
    const parts = Object.entries(row).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
    return {
      row,
      pairs: parts.flatMap((a, i) => (i === 0 && parts.length === 1 ? a : parts.slice(i + 1).map((b) => `${a} ${b}`))),
    };
  });
  const open = new Set(rows.flatMap(({ pairs }) => pairs));
  const chosen: RowOf<F>[] = [];
  while (open.size > 0) {
    const gains = rows.map(({ pairs }) => pairs.filter((pair) => open.has(pair)).length);
    const best = rows[gains.indexOf(Math.max(...gains))] as (typeof rows)[number];
    for (const pair of best.pairs) open.delete(pair);
    chosen.push(best.row);
  }
  return chosen;
};

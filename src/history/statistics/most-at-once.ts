/** How many of some spans lie over one moment, at most; one that ends where another begins does not count beside it. */
export const mostAtOnce = (spans: Iterable<readonly [from: number, to: number]>): number => {
  const edges: [at: number, change: 1 | -1][] = [];
  for (const [from, to] of spans) edges.push([from, 1], [to, -1]);
  edges.sort(([one, up], [next, down]) => one - next || up - down);
  let [open, most] = [0, 0];
  for (const [, change] of edges) {
    open += change;
    most = Math.max(most, open);
  }
  return most;
};

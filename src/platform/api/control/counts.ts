/**
 * Calls as the platform counts them (`GET /counts`): outcome -> organization -> calls, by the run in the client's
 * `X-Request-Id`: everything before its last `.`, `:` or `/`. `?run=r1` adds up `r1` and what begins with `r1` and one
 * of the three. Other calls count only in the sum over all runs.
 */

type Counts = Record<string, Record<string, number>>;

type Row = Map<string, Map<string, number>>;

/** Runs remembered; the one longest unheard of is forgotten first. */
const RUNS_MAX = 1_000;

const endOfRun = (id: string): number => Math.max(id.lastIndexOf("."), id.lastIndexOf(":"), id.lastIndexOf("/"));

const add = (row: Row, outcome: string, org: string): void => {
  let byOrg = row.get(outcome);
  if (byOrg === undefined) {
    byOrg = new Map();
    row.set(outcome, byOrg);
  }
  byOrg.set(org, (byOrg.get(org) ?? 0) + 1);
};

export class OutcomeCounts {
  readonly #all: Row = new Map();
  readonly #runs = new Map<string, Row>();

  /** `requestId`: as the client gave it, `null` where it gave none. `org` is `"-"` for a call refused before it was known. */
  count(requestId: string | null, outcome: string, org: string): void {
    add(this.#all, outcome, org);
    if (requestId === null) return;
    const end = endOfRun(requestId);
    if (end <= 0) return;
    const run = requestId.slice(0, end);
    let row = this.#runs.get(run);
    if (row === undefined) {
      row = new Map();
      if (this.#runs.size >= RUNS_MAX) this.#runs.delete(this.#runs.keys().next().value as string);
      this.#runs.set(run, row);
    }
    add(row, outcome, org);
  }

  /** `null`: of all calls since the start. */
  of(run: string | null): Counts {
    const sum: Counts = {};
    const belongs = (id: string): boolean =>
      id === run || (run !== null && id.startsWith(run) && /[.:/]/.test(id[run.length] as string));
    const rows =
      run === null || run === "" ? [this.#all] : [...this.#runs].filter(([id]) => belongs(id)).map(([, row]) => row);
    for (const row of rows) {
      for (const [outcome, byOrg] of row) {
        sum[outcome] ??= {};
        const total = sum[outcome];
        for (const [org, n] of byOrg) total[org] = (total[org] ?? 0) + n;
      }
    }
    return sum;
  }
}

/**
 * What the platform itself says happened (interface.md section 4, `GET /counts`): outcome -> organization -> calls, added up
 * by the run that a client's `X-Request-Id` names. A witness beside what the clients saw.
 *
 * The run of an id is everything before its last `.`, `:` or `/`; so `r1.smoke.42` counts for `r1.smoke`, and `?run=r1` adds
 * up every run id that is `r1` or begins with `r1` and one of the three. Ids without one of them, and calls without an id,
 * count only in the sum over all runs (no `run` given).
 */

type Counts = Record<string, Record<string, number>>;

type Row = Map<string, Map<string, number>>;

/** Runs remembered; the one longest unheard of is forgotten first. */
const RUNS_MAX = 1_000;

const [POINT, COLON, SLASH] = [".", ":", "/"].map((mark) => mark.charCodeAt(0));

/** Where the run's id ends; 0 or less for an id without one. One walk, because a call that is shed pays for it too. */
const endOfRun = (requestId: string): number => {
  let at = requestId.length - 1;
  for (; at >= 0; at -= 1) {
    const code = requestId.charCodeAt(at);
    if (code === POINT || code === COLON || code === SLASH) break;
  }
  return at;
};

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

/** What an operator reads of calls (`GET /counts`) and orders for next ones (`PATCH /deployment`). */
import type { RouteName } from "../../contract/routes.ts";
import type { Deployment } from "../../core/call.ts";

/** `truncate` ends the connection in mid-answer; `route_error`: a 200 with an `error` key, in a stream the event. */
export const FAIL_MODES = ["error_event", "truncate", "reset", "route_error"] as const;

export type FailPlan = {
  route: RouteName;
  mode: (typeof FAIL_MODES)[number];
  /** Content events that a stream still gives before it fails. */
  after_events?: number;
  count: number;
};

export class DeploymentState {
  /** What the core reads; the same object for every call. */
  readonly view: Deployment;
  #failures: FailPlan[] = [];

  constructor(view: Deployment) {
    this.view = view;
  }

  orderFailure(plan: FailPlan): void {
    if (plan.count > 0) this.#failures.push({ ...plan });
  }

  /** The failure ordered for this admitted call, if any; uses it up. */
  takeFailure(route: string): FailPlan | null {
    const plan = this.#failures.find((one) => one.route === route);
    if (plan === undefined) return null;
    plan.count -= 1;
    this.#failures = this.#failures.filter(({ count }) => count > 0);
    return plan;
  }

  failuresLeft(): number {
    return this.#failures.reduce((sum, { count }) => sum + count, 0);
  }
}

/** Calls by outcome, a line break and organization. */
type Row = Map<string, number>;

/** Runs remembered; the one longest unheard of is forgotten first. */
const RUNS_MAX = 1_000;

/**
 * Calls as the platform counts them, by the run in the client's `X-Request-Id`: everything before its last `.`, `:` or
 * `/`. `?run=r1` adds up `r1` and what begins with `r1` and one of the three. Others count only in the sum of all.
 */
export class OutcomeCounts {
  readonly #all: Row = new Map();
  readonly #runs = new Map<string, Row>();

  /** `requestId`: as the client gave it, `null` where it gave none. `org` is `"-"` for a call refused before it was known. */
  count(requestId: string | null, outcome: string, org: string): void {
    const name = `${outcome}\n${org}`;
    const run = /^(.+)[.:/]/.exec(requestId ?? "")?.[1];
    for (const row of run === undefined ? [this.#all] : [this.#all, this.#rowOf(run)]) {
      row.set(name, (row.get(name) ?? 0) + 1);
    }
  }

  #rowOf(run: string): Row {
    const known = this.#runs.get(run);
    if (known !== undefined) return known;
    const row: Row = new Map();
    if (this.#runs.size >= RUNS_MAX) this.#runs.delete(this.#runs.keys().next().value as string);
    this.#runs.set(run, row);
    return row;
  }

  /** `null`: of all calls since the start. */
  of(run: string | null): Record<string, Record<string, number>> {
    const sum: Record<string, Record<string, number>> = {};
    const belongs = (id: string): boolean => id === run || [".", ":", "/"].some((end) => id.startsWith(run + end));
    const rows = run ? [...this.#runs].filter(([id]) => belongs(id)).map(([, row]) => row) : [this.#all];
    for (const [name, n] of rows.flatMap((row) => [...row])) {
      const [outcome, org] = [name.slice(0, name.indexOf("\n")), name.slice(name.indexOf("\n") + 1)];
      sum[outcome] ??= {};
      const byOrg = sum[outcome];
      byOrg[org] = (byOrg[org] ?? 0) + n;
    }
    return sum;
  }
}

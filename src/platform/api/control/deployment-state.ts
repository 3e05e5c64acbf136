/**
 * What an operator changes while the platform runs (`PATCH /deployment`): sessions, and failures ordered for next
 * calls.
 */
import type { RouteName } from "../../../contract/routes.ts";
import type { Deployment } from "../../../core/call.ts";

/**
 * `truncate`: ends the connection in the middle of the answer. `route_error`: a JSON answer of 200 with an `error` key;
 * a stream ends with its `error` event, as with `error_event`.
 */
export type FailMode = "error_event" | "truncate" | "reset" | "route_error";
export const FAIL_MODES: readonly FailMode[] = ["error_event", "truncate", "reset", "route_error"];

export type FailPlan = {
  route: RouteName;
  mode: FailMode;
  /** Content events that a stream still gives before it fails. */
  after_events?: number;
  count: number;
};

export class DeploymentState {
  /** What the core reads; the same object for every call. */
  readonly view: Deployment;
  readonly #failures: FailPlan[] = [];

  constructor(view: Deployment) {
    this.view = view;
  }

  orderFailure(plan: FailPlan): void {
    if (plan.count > 0) this.#failures.push({ ...plan });
  }

  /** The failure ordered for this admitted call, if any; uses it up. */
  takeFailure(route: string): FailPlan | null {
    if (this.#failures.length === 0) return null;
    const index = this.#failures.findIndex((plan) => plan.route === route);
    const plan = this.#failures[index];
    if (plan === undefined) return null;
    plan.count -= 1;
    if (plan.count === 0) this.#failures.splice(index, 1);
    return plan;
  }

  failuresLeft(): number {
    return this.#failures.reduce((sum, { count }) => sum + count, 0);
  }
}

/** What a call passes before it leaves: an answering target, the pace, the budgets of rules and run, a free connection. */
import type { RunClock } from "../../client/clock.ts";
import { inFlightMax } from "../../client/transport.ts";
import { routeOf } from "../../contract/routes.ts";
import type { Target } from "../../target/target.ts";
import { type BudgetGuard, NOTHING_SPENT, type Taken } from "../../workload/budget.ts";
import { CannotJudge, inconclusive } from "../checks.ts";
import type { Budget } from "../planning/needs.ts";
import { type Answer, isAdmitted } from "./answer.ts";
import { asNobody, type TestCall } from "./test-call.ts";
import { type Throttle, wait } from "./throttle.ts";

/** After so many calls in a row without an answer the target counts as away. */
const SILENCE_MAX = 12;
const RESTART_MAX_MS = 30_000;

/** A FIFO semaphore over connections: a call that waited in our HTTP client would look slow on the target's side. */
export const createLanes = (count: number): { take(): Promise<() => void> } => {
  let free = Math.max(1, count);
  const waiting: (() => void)[] = [];
  return {
    take: async () => {
      if (free > 0) free -= 1;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      let isTaken = true;
      return () => {
        if (!isTaken) return;
        isTaken = false;
        const next = waiting.shift();
        if (next === undefined) free += 1;
        else next();
      };
    },
  };
};

export type GateParts = {
  target: Target;
  clock: RunClock;
  throttle: Throttle;
  budget: Budget;
  /** Budget, rate and stop condition of the whole run; unbounded if absent. */
  runBudget?: BudgetGuard;
  signal?: AbortSignal;
  secretOf(call: TestCall): Promise<string | null>;
};

const chargeOf = ({ route, product }: TestCall): "map_loads" | "analyses" | null => {
  if (route === "sdk.sessions" && product === "tile") return "map_loads";
  return route === "design.analyze" ? "analyses" : null;
};

export const createGates = (parts: GateParts, look: (call: TestCall) => Promise<unknown>) => {
  const { target, clock, throttle, budget, runBudget, signal } = parts;
  const lanes = createLanes(inFlightMax(target));
  let silent = 0;
  let returning: Promise<boolean> | null = null;

  const looksForAWhile = async (): Promise<boolean> => {
    // By the clock, because an unanswered look takes its whole timeout.
    const endMs = performance.now() + RESTART_MAX_MS;
    while (performance.now() < endMs) {
      await wait(1_000, signal);
      await look(asNobody("design.styles"));
      if (silent > 0) continue;
      returning = null;
      return true;
    }
    return false;
  };

  const takeOfRun = async ({ route, anyway }: TestCall): Promise<Taken | null> => {
    if (runBudget === undefined) return null;
    if (anyway === true) {
      runBudget.absorb({ ...NOTHING_SPENT, requests: 1 }, null);
      return null;
    }
    const stream = route !== "-" && routeOf(route).stream !== undefined;
    // Charges are counted afterwards: most calls to metered routes must be refused, and a budget of 0 would end the run at the first.
    const taken = runBudget.take(clock.nowUs(), { stream });
    const reason = runBudget.stopped?.reason ?? "nothing more may be sent";
    if (taken === null) throw new CannotJudge({ verdict: "inconclusive", reason, spent: reason });
    for (let { waitUs } = taken; waitUs > 0; waitUs = taken.waitAgainUs(clock.nowUs()))
      await wait(waitUs / 1000, signal);
    return taken;
  };

  return {
    /** Throws if the call must not leave. `looking`: passes even if the target seems away. */
    enter: async (call: TestCall, looking: boolean) => {
      const { anyway, atOnce } = call;
      // A restart is waited for once: a target that stays away is not waited for again.
      if (silent >= SILENCE_MAX && !looking) {
        returning ??= looksForAWhile();
        if (!(await returning)) throw inconclusive("the target has stopped answering");
      }
      await parts.secretOf(call);
      // A call that undoes something is sent whatever is left.
      if (anyway === true) budget.spent.requests += 1;
      else {
        if (atOnce !== true) await throttle.turn();
        signal?.throwIfAborted();
        budget.take("requests");
      }
      // Read again: a session may have ended while the call waited.
      const secret = await parts.secretOf(call);
      const giveBack = await lanes.take();
      try {
        if (anyway !== true) signal?.throwIfAborted();
        return { secret, taken: await takeOfRun(call), giveBack };
      } catch (error) {
        giveBack();
        throw error;
      }
    },
    record: (answer: Answer): void => {
      const { testCall, status, received } = answer;
      // In a burst, connections may be refused in a row while other calls are served.
      if (status !== null) silent = 0;
      else if (testCall.atOnce !== true) silent += 1;
      const charge = chargeOf(testCall);
      if (charge === null) return;
      // What was admitted by mistake is spent too; for the run's budget also what may have been admitted.
      if (isAdmitted(answer)) budget.spent[charge] += 1;
      if (isAdmitted(answer) || (status === null && received.sent))
        runBudget?.absorb({ ...NOTHING_SPENT, [charge]: 1 }, null);
    },
  };
};

import { describe, expect, test } from "vitest";
import { guardBudget } from "../workload/budget.ts";
import { watchBesideFault } from "./disturbance.ts";
import { outcomesOf } from "./fault.ts";

const STATED = { requests: 1000, stopErrorRate: 0.2 };
const RECOVERY_MS = 100;
const MS = 1000;

/** 20 calls of 1 ms, one each 2 ms from `fromMs` on. */
const calls = (outcome: string, fromMs: number) =>
  Array.from({ length: 20 }, (_, k) => {
    const sentUs = (fromMs + 2 * k) * MS;
    return { sent_us: sentUs, done_us: sentUs + MS, outcome };
  });

const REFUSED = { link: "limiter", fault: "refused" };

const watched = (phases: Partial<Record<"injecting" | "healed", number>>) => {
  const budget = guardBudget(STATED);
  const watch = watchBesideFault(budget, RECOVERY_MS);
  for (const [phase, atMs] of Object.entries(phases))
    watch.fault({ ...REFUSED, phase: phase as "healed", at_us: atMs * MS });
  return { budget, watch };
};

describe("stop_when beside a fault", () => {
  test.each([
    ["before the fault", 1_000, {}, true],
    ["before the fault, seen when it is already in", 1_000, { injecting: 2_000 }, true],
    ["while it is in", 1_000, { injecting: 500 }, false],
    ["until the deadline of recovery", 1_000, { injecting: 500, healed: 950 }, false],
    ["after the deadline of recovery", 1_000, { injecting: 500, healed: 899 }, true],
  ] as const)("503 %s", (_, fromMs, phases, ends) => {
    const { budget, watch } = watched(phases);
    for (const call of calls("503", fromMs)) watch.call(call);
    expect(watch.signal.aborted).toBe(ends);
    expect(budget.stopped !== null).toBe(ends);
    if (ends) expect(budget.stopped?.reason).toMatch(/^stop_when\.error_rate of the target file \(0\.2\) is exceeded/);
  });

  test.each([
    ["api", "edge 502", false],
    ["api", "indeterminate", false],
    ["edge", "edge 503", false],
    ["api", "500", true],
    ["limiter", "edge 502", true],
  ] as const)("while the %s is killed, %s ends the run: %s", (link, outcome, ends) => {
    const tolerated = outcomesOf([{ by: "process", component: link as "api", fault: "killed" }]);
    const watch = watchBesideFault(guardBudget(STATED), RECOVERY_MS, tolerated);
    watch.fault({ ...REFUSED, phase: "injecting", at_us: 500 * MS });
    for (const call of calls(outcome, 1_000)) watch.call(call);
    expect(watch.signal.aborted).toBe(ends);
  });

  test.each([
    ["in a later fault of a schedule", 2_000, false],
    ["between two faults", 1_100, true],
    ["in a fault that began before another one ended", 2_600, false],
    ["after the last one", 4_000, true],
  ] as const)("503 %s", (_, fromMs, ends) => {
    const { watch } = watched({ injecting: 500, healed: 900 });
    const lines = [
      { phase: "injecting", atMs: 1_900, fault: "reset" },
      { phase: "injecting", atMs: 2_100, fault: "trickle" },
      { phase: "healed", atMs: 2_400, fault: "reset" },
      { phase: "healed", atMs: 3_000, fault: "trickle" },
    ] as const;
    // As they come: what is injected or healed later is not known yet.
    for (const { atMs, ...line } of lines) if (atMs <= fromMs) watch.fault({ ...line, link: "keys", at_us: atMs * MS });
    for (const call of calls("503", fromMs)) watch.call(call);
    expect(watch.signal.aborted).toBe(ends);
  });

  test("what no fault brings about is an error throughout", () => {
    const { watch } = watched({ injecting: 500 });
    for (const call of calls("500", 1_000)) watch.call(call);
    expect(watch.signal.aborted).toBe(true);
  });

  test("the driver lets the refusals of the fault pass, stops for anything else and spends from the budget", () => {
    const { budget, watch } = watched({});
    const play = (outcome: string): string | null => {
      // As a driver's process has it: from what is left.
      const own = guardBudget(watch.budget.left(), watch.budget.stated);
      for (const { sent_us, done_us } of calls(outcome, 0)) {
        own.take(sent_us)?.settle(done_us, { outcome, sent: true, sentUs: sent_us, doneUs: done_us });
      }
      watch.budget.absorb(own.spent(), null);
      return own.stopped?.reason ?? null;
    };
    expect(play("503")).toBeNull();
    expect(play("500")).toContain("stop_when");
    expect(play("edge 502")).toContain("stop_when");
    expect(budget.spent().requests).toBe(20 + 10 + 10);
  });

  test("without a stop condition nothing ends it", () => {
    const budget = guardBudget({});
    const watch = watchBesideFault(budget, RECOVERY_MS);
    for (const call of calls("503", 0)) watch.call(call);
    expect(budget.stopped).toBeNull();
  });
});

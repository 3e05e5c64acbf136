/**
 * P6, that the meter is exact under any interleaving of parallel mints, as a function of the store and of what the API does
 * around it. For the test, for stores that are broken on purpose, and for mutants (mutant-laws.ts).
 */
import fc from "fast-check";
import { expect } from "vitest";
import type { LimiterStore } from "../../src/platform/limiter/store.ts";
import { HEALTHY, type Parts } from "../../src/platform/parts.ts";
import { planArb, runQuota } from "../model/quota-system.ts";

export type Schedules = { run: number; interleaved: number };

/** `schedules` counts the schedules that were played, and those of them that had something to interleave. */
export const meterIsExact = (
  open: (s: fc.Scheduler) => LimiterStore,
  parts: Pick<Parts, "settlement" | "chargeId"> = HEALTHY,
  schedules: Schedules = { run: 0, interleaved: 0 },
) =>
  fc.asyncProperty(fc.scheduler(), planArb, async (s, plan) => {
    const { ends, complaints, steps, net, used } = await runQuota(s, plan, open(s), parts);
    schedules.run += 1;
    if (steps > 3) schedules.interleaved += 1;
    if (complaints.length > 0) throw new Error(complaints.join("; "));
    const count = (end: string): number => [...ends.values()].filter((seen) => seen === end).length;
    for (const [id, end] of ends) {
      const [expected, got] = [end === "admitted" ? 1 : 0, net.get(id) ?? 0];
      if (got !== expected) throw new Error(`expected a mint that ended ${end} to be charged ${expected}, got ${got}`);
    }
    const [month, next] = [...used.values()] as [number, number];
    expect(month + next).toBe(plan.usedBefore + count("admitted"));
    const room = Math.max(0, plan.cap - plan.usedBefore);
    expect(count("admitted")).toBeLessThanOrEqual(plan.monthTurns ? room + plan.cap : room);
    if (plan.burst !== null) expect(count("admitted") + count("left")).toBeLessThanOrEqual(plan.burst);
    // Without faults every mint that fits is admitted.
    const calm = plan.batches.flat().every(({ impatient, leaves }) => !impatient && !leaves);
    if (calm && plan.burst === null && !plan.monthTurns) {
      expect(count("admitted")).toBe(Math.min(room, ends.size));
    }
  });

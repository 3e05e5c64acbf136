import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { REFUSAL_BY_OUTCOME, readAnswer } from "../contract/refusals.ts";
import type { StreamEnding } from "../contract/streams.ts";
import { type Became, type Budget, type Charging, guardBudget, type Stopped, type Taken } from "./budget.ts";

const OK: Omit<Became, "sentUs" | "doneUs"> = { outcome: "200", sent: true };
const at = (us: number, became: Partial<Became> = {}): [number, Became] => [
  us,
  { ...OK, sentUs: us, doneUs: us, ...became },
];

/** `outcome`, or the answer that it is read from. */
type Settled = { outcome?: string; status?: number; body?: string; sent?: boolean };
const outcomeIn = ({ outcome, status = 0, body = "" }: Settled): string => outcome ?? readAnswer(status, body).outcome;

type Step = { at: number; times?: number } & (
  | { take: Charging; gives?: "leave" | "wait" | "stop"; leavesAt?: number; then?: Settled }
  | ({ settle: number } & Settled)
);
type Case = { name: string; budget: Budget; stated?: Budget; steps: Step[]; spent: object; stopped: Stopped | null };

/** src/native/sse/budget_cases_test.go plays the same. */
const CASES = JSON.parse(readFileSync(new URL("budget-cases.json", import.meta.url), "utf8")) as Case[];

describe("a budget, in every language", () => {
  test.each(CASES)("$name", ({ budget, stated, steps, spent, stopped }) => {
    const guard = guardBudget(budget, stated);
    const taken: Taken[] = [];
    for (const step of steps) {
      const us = step.at * 1e3;
      if ("settle" in step) {
        taken[step.settle]?.settle(...at(us, { outcome: outcomeIn(step), sent: step.sent !== false, sentUs: 0 }));
        continue;
      }
      for (let time = 0; time < (step.times ?? 1); time++) {
        const came = guard.take(us, step.take);
        const gave = came !== null ? "leave" : guard.stopped === null ? "wait" : "stop";
        expect(gave).toBe(step.gives ?? "leave");
        if (came === null) continue;
        taken.push(came);
        expect(step.at + came.waitUs / 1e3).toBeCloseTo(step.leavesAt ?? step.at, 2);
        if (step.then !== undefined)
          came.settle(...at(us, { outcome: outcomeIn(step.then), sent: step.then.sent !== false }));
      }
    }
    expect(guard.spent()).toMatchObject(spent);
    expect(guard.stopped).toEqual(stopped);
  });

  test("the cases hold every listed refusal with a subcode", () => {
    const steps = CASES.flatMap((one) => one.steps).flatMap((step) => ("take" in step ? (step.then ?? []) : []));
    const answered = new Set(steps.map(outcomeIn));
    const listed = [...REFUSAL_BY_OUTCOME.keys()].filter((outcome) => outcome.includes(" "));
    expect(listed.filter((outcome) => !answered.has(outcome))).toEqual([]);
  });
});

describe("a budget", () => {
  test("what calls in flight reserve stops nothing: it is waited for, and comes back where nothing was charged", async () => {
    const budget = guardBudget({ map_loads: 2 });
    const inFlight = [0, 1].map((us) => budget.take(us, { charge: "map_loads" }));
    expect(budget.take(2, { charge: "map_loads" })).toBeNull();
    expect(budget.stopped).toBeNull();
    expect(budget.take(2)).not.toBeNull();
    const again = budget.settled().then(() => budget.take(4, { charge: "map_loads" }));
    inFlight[0]?.settle(...at(3, { outcome: "429 map_load_quota_exceeded" }));
    const third = await again;
    expect(third).not.toBeNull();
    inFlight[1]?.settle(...at(5));
    expect(budget.take(6, { charge: "map_loads" })).toBeNull();
    expect(budget.stopped).toBeNull();
    third?.settle(...at(7));
    expect(budget.spent().map_loads).toBe(2);
    expect(budget.take(8, { charge: "map_loads" })).toBeNull();
    expect(budget.stopped?.reason).toBe("budget.map_loads of the target file (2) is spent");
  });

  test("what a budget had room for may leave after it is spent; errors keep back what has not left", () => {
    const budget = guardBudget({ requests: 2, maxPerS: 1, stopErrorRate: 0.2 });
    const [first, second] = [budget.take(0), budget.take(0)];
    expect(second?.waitUs).toBeGreaterThan(0);
    expect(budget.take(0)).toBeNull();
    expect([first?.mayLeave(), second?.mayLeave()]).toEqual([true, true]);
    const failing = guardBudget({ stopErrorRate: 0.2 });
    const waiting = failing.take(0);
    for (let i = 0; i < 10; i++) failing.take(0)?.settle(...at(i, { outcome: "500" }));
    expect(waiting?.mayLeave()).toBe(false);
  });

  test("a stream without one event is an error, however it ended, unless its caller left it", () => {
    const stops = (outcome: string, ending: StreamEnding): boolean => {
      const budget = guardBudget({ stopErrorRate: 0.2 });
      for (let i = 0; i < 10; i++) budget.take(i)?.settle(...at(i, { outcome, ending }));
      return budget.stopped !== null;
    };
    expect(stops("200 empty", { ended: "eof", events: 0 })).toBe(true);
    expect(stops("204 empty", { ended: "refused" })).toBe(true);
    for (const ended of ["truncated", "reset", "timeout"] as const) {
      expect(stops("200", { ended, events: 0 })).toBe(true);
      expect(stops("200", { ended, events: 1 })).toBe(false);
    }
    expect(stops("200", { ended: "closed_by_client", events: 0, aborted: true })).toBe(false);
    expect(stops("200 error", { ended: "refused" })).toBe(false);
    expect(stops("200", {})).toBe(false);
  });

  test("whoever waits is woken when nothing is sent any more", async () => {
    const budget = guardBudget({ map_loads: 1, requests: 2 });
    budget.take(0, { charge: "map_loads" });
    const woken = budget.settled();
    budget.take(1);
    expect(budget.take(2)).toBeNull();
    await woken;
    expect(budget.stopped?.reason).toContain("budget.requests");
  });

  test.each([1, 5, 20, 200, 2_000])(
    "no second holds more than 1.05 times %i calls, however many come at once",
    (max) => {
      const budget = guardBudget({ maxPerS: max });
      const leaves: number[] = [];
      for (let i = 0; i < 5 * max; i++) {
        const nowUs = i < 2 * max ? 0 : (i * 1e6) / (2 * max);
        leaves.push(nowUs + (budget.take(nowUs)?.waitUs ?? Number.NaN));
      }
      leaves.sort((a, b) => a - b);
      let from = 0;
      for (const [to, atUs] of leaves.entries()) {
        while (atUs - (leaves[from] as number) >= 1e6) from += 1;
        expect(to - from + 1).toBeLessThanOrEqual(Math.max(1, 1.05 * max));
      }
      // It does not lose the rate that it permits.
      const seconds = ((leaves.at(-1) as number) - (leaves[0] as number)) / 1e6;
      expect(leaves.length / seconds).toBeGreaterThan(0.85 * max);
    },
  );

  test.each([1, 5, 20, 200])("a process that stands still lets no burst of what waited leave: %i per second", (max) => {
    const budget = guardBudget({ maxPerS: max });
    // Nothing runs between the two; after that every wait ends up to 20 ms late.
    const [stillUs, onUs] = [2e6, 4.7e6];
    const wokenUs = (us: number): number => (us > stillUs && us < onUs ? onUs : us + ((us * 7) % 20_000));
    const leaves: number[] = [];
    const due: { atUs: number; taken: Taken | null }[] = [];
    for (let i = 0; i < 10 * max; i++) due.push({ atUs: wokenUs((i * 1e6) / (1.2 * max)), taken: null });
    for (let one = due.shift(); one !== undefined; one = due.shift()) {
      const { atUs } = one;
      const taken = one.taken ?? (budget.take(atUs) as Taken);
      const waitUs = one.taken === null ? taken.waitUs : taken.waitAgainUs(atUs);
      if (waitUs === 0) leaves.push(atUs);
      else due.push({ atUs: wokenUs(atUs + waitUs), taken });
      due.sort((a, b) => a.atUs - b.atUs);
    }
    expect(leaves).toHaveLength(10 * max);
    let from = 0;
    for (const [to, atUs] of leaves.entries()) {
      while (atUs - (leaves[from] as number) >= 1e6) from += 1;
      expect(to - from + 1).toBeLessThanOrEqual(Math.max(1, 1.05 * max));
    }
    const seconds = ((leaves.at(-1) as number) - (leaves[0] as number) - (onUs - stillUs)) / 1e6;
    expect(leaves.length / seconds).toBeGreaterThan(0.85 * max);
  });

  test("hands out what is left, and takes in what another process spent of it", () => {
    const budget = guardBudget({ requests: 10, maxPerS: 5 });
    budget.take(0);
    expect(budget.left()).toEqual({ requests: 9, maxPerS: 5 });
    budget.absorb({ requests: 4, map_loads: 1, analyses: 0, stream_seconds: 0.5 }, null);
    expect(budget.left().requests).toBe(5);
    expect(budget.spent()).toEqual({ requests: 5, map_loads: 1, analyses: 0, stream_seconds: 0.5 });
    budget.absorb({ requests: 0, map_loads: 0, analyses: 0, stream_seconds: 0 }, { by: "asked", reason: "the reason" });
    expect(budget.stopped?.reason).toBe("the reason");
  });
});

import { expect, test } from "vitest";
import type { CallLine } from "../history/line.ts";
import { paceOf } from "./disturbance.ts";
import { type CallsSeen, createRecentCalls, isBack, isSilent, isSteady, showsFault } from "./seen-by-callers.ts";

const seen = (calls: number, through: number, latencyMsP50 = 5, tookMsP50 = latencyMsP50): CallsSeen => ({
  calls,
  through,
  latencyMsP50,
  tookMsP50,
});
const line = (atMs: number, outcome: string, tookMs = 5): CallLine =>
  ({ type: "call", sent_us: atMs * 1000, first_us: null, done_us: (atMs + tookMs) * 1000, outcome }) as CallLine;

test("shed calls say nothing of a dependency, and what a limiter decided came through", () => {
  const recent = createRecentCalls();
  const outcomes = ["200", "429 rate_limited", "429 b2b_overloaded", "503", "429 limiter_unavailable", "indeterminate"];
  for (const [at, outcome] of outcomes.entries()) recent.add(line(at, outcome, at));
  expect(recent.newest(0)).toEqual(seen(5, 2, 3));
  expect(recent.newest(1_000)).toMatchObject({ calls: 4, through: 1 });
  expect(recent.newest(0, 2)).toMatchObject({ calls: 2, through: 0 });
});

test("two per cent of its own are steady, a fifth is not, and a few calls are too few", () => {
  expect(isSteady(seen(50, 49), 30)).toBe(true);
  expect(isSteady(seen(50, 40), 30)).toBe(false);
  expect(isSteady(seen(5, 5), 30)).toBe(false);
});

test("back is what it was before, and no better", () => {
  expect(isBack(seen(60, 60), seen(15, 14), 15)).toBe(true);
  expect(isBack(seen(60, 60), seen(15, 12), 15)).toBe(false);
  expect(isBack(seen(100, 95), seen(15, 12), 15)).toBe(true);
  expect(isBack(seen(60, 60), seen(5, 5), 15)).toBe(false);
});

test("a fault shows as fewer calls that come through or slower ones, never as its own few refusals", () => {
  const before = seen(60, 59);
  expect(showsFault(before, seen(20, 0))).toBe(true);
  expect(showsFault(before, seen(20, 10))).toBe(true);
  expect(showsFault(before, seen(20, 18))).toBe(false);
  expect(showsFault(before, seen(20, 20, 105))).toBe(true);
  expect(showsFault(before, seen(20, 20, 9))).toBe(false);
  // A stream that begins at once and takes its time.
  expect(showsFault(before, seen(20, 20, 9, 105))).toBe(true);
  expect(showsFault(before, seen(5, 0))).toBe(false);
});

test("nothing at all that comes back is a fault, once enough is out", () => {
  const before = seen(60, 60);
  expect(isSilent(before, 1.5, 40)).toBe(true);
  expect(isSilent(before, 0.5, 100)).toBe(false);
  expect(isSilent(before, 1.5, 5)).toBe(false);
  // Streams of two seconds are still on their way.
  expect(isSilent(seen(60, 60, 5, 2_000), 1.5, 40)).toBe(false);
  // The last calls that came back left while the fault was being injected.
  const recent = createRecentCalls();
  for (const atMs of [1_000, 1_400, 1_200]) recent.add(line(atMs, "200"));
  expect(isSilent(before, 2.6 - recent.sentUs() / 1_000_000, 40)).toBe(true);
  expect(isSilent(before, 1.9 - recent.sentUs() / 1_000_000, 40)).toBe(false);
});

test("a slow load is given the time that its judges need", () => {
  const faults = [{ by: "link", component: "keys", fault: "refused" }] as const;
  const fault = { kind: "faults", name: "keys-refused", faults, holdMs: 3_000 } as const;
  expect(paceOf(fault, 30)).toMatchObject({ holdMs: 3_000, recoveryMs: 3_000, backCalls: 15 });
  expect(paceOf(fault, 2)).toMatchObject({ holdMs: 7_500, recoveryMs: 7_500, backCalls: 5 });
  expect(paceOf(fault, 30, { revocation_budget_ms: 10_000 }).holdMs).toBe(12_000);
});

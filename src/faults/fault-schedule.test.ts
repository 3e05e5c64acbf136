import { expect, test } from "vitest";
import { drawSchedule, durationS, type FaultEvent, RECOVERY_MS } from "./fault-schedule.ts";

const drawn = Array.from({ length: 500 }, (_, n) => drawSchedule(7, n));
const SWITCHES = ["refused", "flapping", "trickle"];

test("number n of a seed is the same schedule each time, and another seed's is another", () => {
  expect(Array.from({ length: 20 }, (_, n) => drawSchedule(7, n))).toEqual(drawn.slice(0, 20));
  expect(drawSchedule(8, 0)).not.toEqual(drawn[0]);
});

test("faults overlap, on both links and on one", () => {
  const overlapping = ({ events }: { events: FaultEvent[] }, same: boolean): boolean =>
    events.some((a, i) => events.some((b, k) => k > i && (a.link === b.link) === same && b.atMs < a.atMs + a.forMs));
  expect(drawn.filter((one) => overlapping(one, true)).length).toBeGreaterThan(20);
  expect(drawn.filter((one) => overlapping(one, false)).length).toBeGreaterThan(50);
});

test("no two faults side by side that would take each other away, and none longer than a recovery is waited for", () => {
  for (const { events } of drawn) {
    expect(events.length).toBeGreaterThan(0);
    for (const [i, a] of events.entries()) {
      expect(a.forMs).toBeLessThan(RECOVERY_MS);
      for (const b of events.slice(i + 1)) {
        if (a.link !== b.link || b.atMs >= a.atMs + a.forMs) continue;
        expect(a.fault).not.toBe(b.fault);
        expect(SWITCHES.includes(a.fault) && SWITCHES.includes(b.fault)).toBe(false);
      }
    }
  }
});

test("the load outlasts the recovery from the last fault", () => {
  for (const schedule of drawn) {
    const lastMs = Math.max(...schedule.events.map(({ atMs, forMs }) => atMs + forMs));
    expect(durationS(schedule) * 1000).toBeGreaterThan(lastMs + RECOVERY_MS);
  }
});

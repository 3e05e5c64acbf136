import { expect, test } from "vitest";
import { createLease } from "../../workload/lease.ts";
import { toleratingRefusals } from "./tolerated.ts";

const play = (outcome: string, tolerating: boolean): string | null => {
  const stated = createLease({ requests: 100, stopErrorRate: 0.2 });
  // As a driver's process has it: from what is left.
  const own = createLease((tolerating ? toleratingRefusals(stated) : stated).left());
  for (let at = 0; at < 20; at++) {
    const taken = own.take(at * 1_000);
    taken?.settle(at * 1_000 + 500, { outcome, sent: true, sentUs: at * 1_000, doneUs: at * 1_000 + 500 });
  }
  stated.absorb(own.spent(), own.stopped);
  return stated.stopped;
};

test("what the fault is expected to bring about does not end the run, and anything else does", () => {
  expect(play("503", true)).toBeNull();
  expect(play("503", false)).toContain("stop_when");
  expect(play("500", true)).toContain("stop_when");
  expect(play("edge 502", true)).toContain("stop_when");
});

test("it spends from the lease that it wraps", () => {
  const lease = createLease({ requests: 3 });
  const wrapped = toleratingRefusals(lease);
  wrapped.absorb({ requests: 3, map_loads: 0, analyses: 0, stream_seconds: 0 }, "spent");
  expect(lease.left().requests).toBe(0);
  expect(wrapped.stopped).toBe("spent");
});

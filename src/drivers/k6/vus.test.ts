import { describe, expect, test } from "vitest";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { constant } from "../../workload/load-profiles.ts";
import { busyWarnings, vusHere } from "./k6.ts";

const view = viewOf({
  credentials: { server: { key: "env:X" } },
  limits: { slots: 3_000, service_ms: 5_000 },
});
const wish = { profile: constant(600, 10), view, story: STORIES.get("chat-past-capacity")!, seed: 1 };
const GB = 1e9;
const roomy = { freeBytes: 16 * GB, files: 1_000_000 };

describe("VUs on this machine", () => {
  test("are as many as the load asks for where there is memory", () => {
    const { vus, callsAtOnce, warnings } = vusHere(wish, 1, roomy);
    expect(callsAtOnce).toBeGreaterThan(3_000);
    expect(vus).toBeLessThan(50);
    expect(warnings).toEqual([]);
  });

  test("are as many as fit where there is not, and that is said", () => {
    const { callsAtOnce, warnings } = vusHere(wish, 1, { ...roomy, freeBytes: 0.6 * GB });
    expect(callsAtOnce).toBe(1_000);
    expect(warnings).toEqual([expect.stringMatching(/at most 1000 \(half of the 600 MB that are free here\)/)]);
    expect(vusHere(wish, 4, { ...roomy, freeBytes: 0 })).toMatchObject({ vus: 4, callsAtOnce: 4 });
  });

  test("need a file each, of which a process may have so many", () => {
    const { callsAtOnce, warnings } = vusHere(wish, 1, { ...roomy, files: 1_024 });
    expect(callsAtOnce).toBe(824);
    expect(warnings).toEqual([
      expect.stringMatching(/at most 824 \(a process may have 1024 files open here: ulimit -n\)/),
    ]);
  });

  test("are those that are asked for", () => {
    expect(vusHere({ ...wish, vus: 7 }, 1, { ...roomy, freeBytes: 0 })).toEqual({
      vus: 7,
      callsAtOnce: 7,
      warnings: [],
    });
  });

  test("are a place for each call where somebody has to wait for the answer", () => {
    const { vus, callsAtOnce } = vusHere({ ...wish, story: STORIES.get("slow-readers")! }, 1, roomy);
    expect(vus).toBe(callsAtOnce);
  });

  test("that were all busy at once are told of, in any of the processes", () => {
    expect(busyWarnings(10, [{ most: 9 }])).toEqual([]);
    expect(busyWarnings(10, [{ most: 10 }])).toEqual([expect.stringMatching(/10 calls .* `limits.service_ms`/)]);
    expect(busyWarnings(10, [{ most: 2 }, { most: 5 }])).toHaveLength(1);
  });
});

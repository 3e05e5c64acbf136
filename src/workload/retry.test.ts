import { describe, expect, test } from "vitest";
import { nextAttemptMs, retryAfterMs, triesOf } from "./retry.ts";
import { type Step, stepOf } from "./step.ts";

const view = { tenants: [], roles: {}, limits: {}, permits: { writes: false, quotaBurn: false } };
const stepThat = (honours: boolean): Step =>
  stepOf(view, 0, { route: "chat.control", credential: { as: "none" }, retry: { times: 2, honours } });
const refused = { outcome: "429 b2b_overloaded", retryAfter: "2", attempt: 0, nowMs: 0 };

describe("Retry-After", () => {
  test("is seconds or a date, and one second where it is neither", () => {
    const nowMs = Date.parse("Sat, 21 Nov 2026 09:00:00 GMT");
    expect(retryAfterMs("7", nowMs)).toBe(7000);
    expect(retryAfterMs("Sat, 21 Nov 2026 09:00:05 GMT", nowMs)).toBe(5000);
    expect(retryAfterMs("Sat, 21 Nov 2026 08:00:00 GMT", nowMs)).toBe(0);
    expect(retryAfterMs("soon", nowMs)).toBe(1000);
    expect(retryAfterMs(undefined, nowMs)).toBe(1000);
  });

  test.each(["1.5", "-1", "", " ", "1, 2", "1e3", "0x10", "Infinity", "NaN", "+5", "1s", "2026-11-21T09:00:05Z"])(
    "that says %j makes nobody come back at once",
    (retryAfter) => {
      const nowMs = Date.parse("Sat, 21 Nov 2026 09:00:00 GMT");
      expect(retryAfterMs(retryAfter, nowMs)).toBe(1000);
      const waits = Array.from({ length: 20 }, (_, i) =>
        nextAttemptMs(stepThat(true), 1, i, { ...refused, retryAfter, nowMs }),
      );
      expect(Math.min(...(waits as number[]))).toBeGreaterThanOrEqual(1000);
      expect(new Set(waits).size).toBe(20);
    },
  );

  test("of nothing, or of a date that has passed, still spreads the clients over half a second", () => {
    const nowMs = Date.parse("Sat, 21 Nov 2026 09:00:00 GMT");
    for (const retryAfter of ["0", "Sat, 21 Nov 2026 08:59:00 GMT"]) {
      const waits = Array.from({ length: 50 }, (_, i) =>
        nextAttemptMs(stepThat(true), 1, i, { ...refused, retryAfter, nowMs }),
      ) as number[];
      expect(Math.max(...waits)).toBeLessThan(500);
      expect(Math.max(...waits) - Math.min(...waits)).toBeGreaterThan(300);
    }
  });
});

describe("the next attempt", () => {
  test("waits at least as long as asked, with jitter, or not at all (item 217)", () => {
    const waits = Array.from({ length: 50 }, (_, i) => nextAttemptMs(stepThat(true), 1, i, refused)!);
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(2000);
    expect(Math.max(...waits)).toBeLessThan(3000);
    expect(new Set(waits).size).toBe(50);
    expect(nextAttemptMs(stepThat(false), 1, 0, refused)).toBe(0);
  });

  test("is not made after the last one, for an answer, for a definite no, or for an hour's wait", () => {
    const withMore = (more: object) => nextAttemptMs(stepThat(true), 1, 0, { ...refused, ...more });
    expect(withMore({ attempt: 2 })).toBeNull();
    expect(withMore({ outcome: "200" })).toBeNull();
    expect(withMore({ outcome: "401" })).toBeNull();
    expect(withMore({ outcome: "429 map_load_quota_exceeded" })).toBeNull();
    expect(withMore({ outcome: "indeterminate" })).toBeNull();
    expect(withMore({ retryAfter: "3600" })).toBeNull();
    expect(withMore({ retryAfter: "9".repeat(400) })).toBeNull();
    expect(withMore({ outcome: "503" })).not.toBeNull();
  });
});

describe("the tries of a call", () => {
  /** What is tried, as `step/attempt`, when the outcomes come in this order. */
  const triedWith = (outcomes: readonly string[], honours = true): string[] => {
    const nextTry = triesOf([stepThat(honours), stepThat(honours)], 1, 0);
    const tried: string[] = [];
    for (let next = nextTry(); next !== null; ) {
      const { at, attempt, waitMs } = next;
      expect(waitMs === null).toBe(attempt === 0);
      tried.push(`${at}/${attempt}`);
      next = nextTry({ outcome: outcomes[tried.length - 1] ?? "200", retryAfter: "1", nowMs: 0 });
    }
    return tried;
  };

  test("go on to the next step after success, and end after anything else", () => {
    expect(triedWith(["200", "200 error"])).toEqual(["0/0", "1/0"]);
    expect(triedWith(["401"])).toEqual(["0/0"]);
    expect(triedWith(["indeterminate"])).toEqual(["0/0"]);
  });

  test("repeat a step that was refused for now, as often as its client does", () => {
    const shed = "429 b2b_overloaded";
    expect(triedWith([shed, "200"])).toEqual(["0/0", "0/1", "1/0"]);
    expect(triedWith([shed, shed, shed])).toEqual(["0/0", "0/1", "0/2"]);
    expect(triedWith(["200", shed, "200"], false)).toEqual(["0/0", "1/0", "1/1"]);
  });
});

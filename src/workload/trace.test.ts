import { describe, expect, test } from "vitest";
import { arrivalTimesUs } from "./arrivals.ts";
import { profileCalls, profileDurationS, scaleProfile } from "./load-profiles.ts";
import { readAccessLog, traceProfile } from "./trace.ts";

const AT = Date.UTC(2026, 9, 10, 20, 55, 36);

describe("an access log", () => {
  test.each([
    ['203.0.113.9 - alice [10/Oct/2026:13:55:36 -0700] "GET /v1/maps?key=svc_sk_live_x HTTP/1.1" 200 2326', AT],
    ["2026-10-10T20:55:36.250Z INFO GET /v1/design/styles 200", AT + 250],
    ["2026-10-10 20:55:36,250 GET /v1/design/styles", AT + 250],
    ['{"level":"info","time":"2026-10-10T22:55:36+02:00","path":"/v1"}', AT],
    [`{"msec":${AT / 1000 + 0.25}}`, AT + 250],
    [`{"ts":${AT}}`, AT],
    [`{"@timestamp":${AT * 1e6}}`, AT],
    [`${AT / 1000}.250 203.0.113.9 GET /v1`, AT + 250],
  ])("has a time in the line %s", (line, ms) => {
    const { atMs, skipped } = readAccessLog(line);
    expect(skipped).toBe(0);
    expect(atMs[0]).toBeCloseTo(ms, 3);
  });

  test("may have lines without a time, and lines that are out of order; both are said or mended", () => {
    const log = `# fields\n[10/Oct/2026:20:55:37 +0000] b\n\n[10/Oct/2026:20:55:36 +0000] a\n[99/Foo/2026:20:55:36 +0000] c\n{"time":\n`;
    expect(readAccessLog(log)).toEqual({ atMs: [AT, AT + 1000], skipped: 3 });
  });
});

describe("a trace", () => {
  test("keeps the moments of the log, whatever arrivals are asked for", () => {
    const profile = traceProfile([AT + 10, AT + 30, AT + 1250]);
    expect(arrivalTimesUs(profile, "poisson", 1)).toEqual([0, 20_000, 1_240_000]);
    expect(arrivalTimesUs(profile, "uniform", 2)).toEqual([0, 20_000, 1_240_000]);
    expect(profileCalls(profile)).toBe(3);
    expect(profileDurationS(profile)).toBe(2);
  });

  test("of whole seconds spreads the calls of each over it", () => {
    const profile = traceProfile([AT, AT, AT, AT, AT + 1000]);
    expect(profile.momentsUs).toEqual([0, 250_000, 500_000, 750_000, 1_375_000]);
  });

  test("runs faster or slower with the same calls, by the rate that is wished", () => {
    const log = Array.from({ length: 101 }, (_, k) => AT + 0.5 + 100 * k);
    const twice = traceProfile(log, { ratePerS: 20 });
    expect(twice.momentsUs).toHaveLength(101);
    expect(twice.momentsUs?.at(-1)).toBe(5_000_000);
    expect(scaleProfile(twice, 0.5).momentsUs?.at(-1)).toBe(10_000_000);
    expect(traceProfile(log, { ratePerS: 20, durationS: 2 }).momentsUs).toHaveLength(40);
  });

  test("holds nothing of the log but its times", () => {
    const log = '203.0.113.9 - alice [10/Oct/2026:13:55:36 -0700] "GET /v1/maps?key=svc_sk_live_x HTTP/1.1" 200';
    expect(JSON.stringify(traceProfile(readAccessLog(`${log}\n${log}`).atMs))).not.toMatch(/203|alice|svc|maps/);
  });
});

import { describe, expect, test } from "vitest";
import { readRetryAfter, statedWaitMs } from "./retry-after.ts";

const AT = Date.UTC(2026, 10, 21, 9, 0, 5);
const NOW = AT - 5000;

describe("Retry-After", () => {
  test.each([
    ["0", { seconds: 0 }],
    [" 7\t", { seconds: 7 }],
    ["007", { seconds: 7 }],
    ["Sat, 21 Nov 2026 09:00:05 GMT", { atMs: AT }],
    ["Saturday, 21-Nov-26 09:00:05 GMT", { atMs: AT }],
    ["Sat Nov 21 09:00:05 2026", { atMs: AT }],
    ["Sun Nov  1 09:00:05 2026", { atMs: AT - 20 * 86_400_000 }],
    ["Sunday, 06-Nov-94 08:49:37 GMT", { atMs: Date.UTC(1994, 10, 6, 8, 49, 37) }],
    ["Sat, 31 Dec 2016 23:59:60 GMT", { atMs: Date.UTC(2017, 0, 1) }],
  ])("is read from %j", (text, read) => {
    expect(readRetryAfter(text, NOW)).toEqual(read);
  });

  test.each([
    ...["", " ", "1.5", "-1", "+1", "1e3", "0x10", "1, 2", "1,2", "1;2", "1 2", "5s", "Infinity", "NaN", "soon", "١"],
    ...["Sat, 31 Feb 2026 09:00:05 GMT", "Sat, 00 Nov 2026 09:00:05 GMT", "Sat, 21 Nov 2026 24:00:00 GMT"],
    ...[
      "Sat, 21 Nov 2026 09:00:05",
      "Sat, 21 Nov 2026 09:00:05 +0100",
      "2026-11-21T09:00:05Z",
      "Sat, 21 Foo 2026 09:00:05 GMT",
    ],
    ...["Thu, 26 Nov 2026 00:00:00 GMT, 5", "sat, 21 nov 2026 09:00:05 gmt"],
  ])("says nothing as %j", (text) => {
    expect(readRetryAfter(text, NOW)).toBeNull();
    expect(statedWaitMs(text, NOW)).toBeUndefined();
  });

  test("asks for a wait that is finite and never negative", () => {
    expect(statedWaitMs("Sat, 21 Nov 2026 09:00:05 GMT", NOW)).toBe(5000);
    expect(statedWaitMs("Sat, 21 Nov 2026 08:00:05 GMT", NOW)).toBe(0);
    expect(statedWaitMs("9".repeat(400), NOW)).toBe(Number.MAX_SAFE_INTEGER);
  });
});

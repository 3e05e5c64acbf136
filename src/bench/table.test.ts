import { expect, test } from "vitest";
import { compare, short, tableOf } from "./comparison.ts";

const block = (value: number, disturbances: string[] = []) => ({ value, cpuUsEach: 12, doubts: [], disturbances });

test("the widest row keeps to 80 columns, and says what was missed and what is not to be trusted", () => {
  const about = { name: "core runtime-session", what: "", unit: "calls/s", target: { atLeast: 0.5 } };
  const row = compare(about, [
    { ours: block(12_345_678), against: block(99_999_999, ["other processes used the CPU"]) },
  ]);
  const lines = tableOf([row], [{ name: "read-redis", reason: "there is no redis-server here" }]).split("\n");
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
  expect(lines[1]).toMatch(/0\.12 +0\.12 +0\.12 +12\.35M +100\.00M MISSED$/);
  expect(lines[2]).toBe("  not to be trusted: other processes used the CPU (1 block)");
  expect(lines[3]).toMatch(/^read-redis +SKIPPED: there is no redis-server here$/);
});

test("a row whose rounds lie too far apart says so, and by how much", () => {
  const about = { name: "read", what: "", unit: "calls/s", target: { atLeast: 0.5 } };
  const pairs = [80, 100, 140].map((value) => ({ ours: block(value), against: block(100) }));
  const lines = tableOf([compare(about, pairs)], []).split("\n");
  expect(lines[1]).toMatch(/1\.03 +0\.80 +1\.40 .* WIDE$/);
  expect(lines[2]).toBe("  spread too wide: the rounds lie 58 % of the ratio apart, more than a fifth");
});

test("figures keep three digits that mean something", () => {
  expect([1.25, 123.4, 9_999, 12_345, 2_071_234].map(short)).toEqual(["1.3", "123", "9999", "12.3k", "2.07M"]);
});

import { expect, test } from "vitest";
import { kindOf, outcomeRows } from "./charts/layers.ts";

test("only the two overload refusals are shedding", () => {
  expect(["429 b2b_overloaded", "429 org_overloaded"].map(kindOf)).toEqual(["shed", "shed"]);
  expect(["429 rate_limited", "429 limiter_unavailable", "401", "503"].map(kindOf)).toEqual(Array(4).fill("refused"));
});

test("what a balancer said, an error under 200 and no answer are kinds of their own", () => {
  expect(
    ["200", "201", "200 error", "200 error event", "edge 502", "edge 200", "indeterminate", "200 empty"].map(kindOf),
  ).toEqual(["answered", "answered", "error", "error", "edge", "edge", "indeterminate", "indeterminate"]);
});

test("each row has its own letter, also beyond Z", () => {
  const by_outcome = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`4${i + 10} x`, 100 - i]));
  const calls = { sent: 0, answered: 0, refused: 0, indeterminate: 0 };
  const keys = outcomeRows({ name: "s", driver: "d", duration_ms: 1, calls, by_outcome }).map((r) => r.key);
  expect([keys[0], keys[25], keys[26], keys[52]]).toEqual(["A", "Z", "AA", "BA"]);
  expect(new Set(keys).size).toBe(60);
});

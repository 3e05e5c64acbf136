/** Calls as tallies: which calls count, and what an objective says of one. */
import { describe, expect, test } from "vitest";
import type { CallLine } from "../history/line.ts";
import { parseObjectives } from "../history/objectives.ts";
import { shareObjective, tallyCalls } from "./probe.ts";

const call = (atMs: number, tookMs: number, outcome = "200"): CallLine => ({
  type: "call",
  id: `${atMs}`,
  stage: "s",
  driver: "d",
  org: "o",
  route: "catalog.basemaps" as CallLine["route"],
  intended_us: atMs * 1000,
  started_us: atMs * 1000,
  connect_us: 0,
  sent_us: atMs * 1000,
  first_us: atMs * 1000,
  done_us: (atMs + tookMs) * 1000,
  outcome,
  attempt: 0,
  clock_error_us: 0,
});

const objectives = (text: string) => parseObjectives(text).map(shareObjective);

describe("tallies", () => {
  test("by the moment a call should have left, warm-up and what comes after left out", () => {
    const lines = [call(0, 5), call(999, 5), call(1000, 5), call(1500, 5, "429 b2b_overloaded"), call(2000, 5)];
    const { calls, tallies, outcomes } = tallyCalls(lines, objectives("refusals<=1%"), { fromUs: 1e6, toUs: 2e6 });
    expect(calls).toBe(2);
    expect(tallies[0]).toMatchObject({ bad: 1, n: 2 });
    expect(outcomes).toEqual({ "200": 1, "429 b2b_overloaded": 1 });
  });

  test("a quantile is a share of calls that take longer; refusals have no such time, no answer is endless", () => {
    const [p99] = objectives("p99<=300ms");
    expect(p99?.limit).toBeCloseTo(0.01);
    expect(p99?.isBad(call(0, 300))).toBe(false);
    expect(p99?.isBad(call(0, 301))).toBe(true);
    expect(objectives("p99<300ms")[0]?.isBad(call(0, 300))).toBe(true);
    expect(p99?.isBad(call(0, 1, "429 b2b_overloaded"))).toBe(null);
    expect(p99?.isBad(call(0, 1, "indeterminate"))).toBe(true);
  });

  test("a refusal is no error, and an error no refusal", () => {
    const [refusals, errors] = objectives("refusals<=1%,errors<=2%");
    expect([
      refusals?.isBad(call(0, 1, "429 org_overloaded")),
      errors?.isBad(call(0, 1, "429 org_overloaded")),
    ]).toEqual([true, false]);
    expect([refusals?.isBad(call(0, 1, "503")), errors?.isBad(call(0, 1, "503"))]).toEqual([false, true]);
  });

  test("blocks are longer than calls", () => {
    const lines = Array.from({ length: 100 }, (_, i) => call(i * 100, 1000));
    const { tallies } = tallyCalls(lines, objectives("refusals<=1%"), { fromUs: 0, toUs: 10e6 });
    expect(tallies[0]?.blocks).toEqual([
      { bad: 0, n: 50 },
      { bad: 0, n: 50 },
    ]);
  });

  test("the largest of all calls is no objective to search by", () => {
    expect(() => objectives("max<=1s")).toThrow(/p999/);
  });
});

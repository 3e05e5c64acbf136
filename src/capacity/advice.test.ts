/** What a reader is advised: whose limit was met, what a demand needs, and that a figure is never said to be another's. */
import { describe, expect, test } from "vitest";
import type { Answer } from "./capacity-claims.ts";
import {
  advise,
  capacityClaims,
  capacityMeasurement,
  demandOf,
  demandVerdict,
  type Found,
  firstLimit,
  limitPhrase,
  probeTable,
} from "./capacity-claims.ts";
import type { ProbeResult } from "./probe.ts";
import { CALM_GENERATOR } from "./virtual-server.fixture.ts";

const probe = (ratePerS: number, outcomes: Record<string, number>, bad = 0, lagMsP99 = 1): ProbeResult => {
  const calls = Object.values(outcomes).reduce((sum, n) => sum + n, 0);
  return {
    plan: { purpose: "narrow", ratePerS, warmUpS: 1, playS: 10, mayStopEarly: false, dispersions: [1] },
    playedS: 10,
    calls,
    outcomes,
    latencyMsP50: 200,
    tallies: [{ bad, n: calls, blocks: [], isTime: false }],
    generator: { ...CALM_GENERATOR, lagMsP99 },
  };
};

const answerOf = (more: Partial<Answer> = {}): Answer => ({
  kind: "found",
  ratePerS: 44,
  low: 40,
  high: 48,
  binding: 0,
  reason: "confirmed",
  generator: "on schedule",
  ...more,
});

const limitBy = (outcome: string) =>
  firstLimit([probe(40, { "200": 400 }), probe(60, { "200": 550, [outcome]: 50 })], 44, false);

describe("the limit met first", () => {
  test.each([
    ["429 b2b_overloaded", "deployment"],
    ["429 org_overloaded", "organization"],
    ["429 rate_limited", "key"],
    ["429 map_load_quota_exceeded", "allowance"],
    ["429 limiter_unavailable", "limiter"],
    ["503", "key-service"],
    ["edge 502", "edge"],
    ["indeterminate", "no-answer"],
    ["418 teapot", "other"],
  ])("%s is the %s's", (outcome, owner) => {
    expect(limitBy(outcome)).toMatchObject({ owner, outcome, sentence: expect.stringContaining("50 of 600") });
  });

  test("nothing refused and too slow is time", () => {
    expect(firstLimit([probe(60, { "200": 600 })], 44, true)).toMatchObject({ owner: "time" });
  });

  test("what is refused far above the answer does not hide what is refused just above it", () => {
    const just = probe(50, { "200": 490, "429 org_overloaded": 10 });
    const far = probe(400, { "200": 400, "429 b2b_overloaded": 3600 });
    expect(firstLimit([just, far], 44, false).owner).toBe("organization");
  });
});

test("the limit is named further up where nothing is refused just above the answer, and not where nothing is at all", () => {
  const just = probe(50, { "200": 500 });
  const far = probe(400, { "200": 3_000, "429 rate_limited": 1_000 });
  expect(firstLimit([just, far], 44, false)).toMatchObject({ owner: "key", share: 1_000 / 4_500 });
  expect(firstLimit([just], 44, false).owner).toBe("none");
});

test("a refusal is called the limit met first only where it is known which objective breaks first", () => {
  const limit = limitBy("429 b2b_overloaded");
  expect(limitPhrase({ answer: answerOf(), limit })).toMatch(/^the limit met first: the deployment's own slots/);
  expect(limitPhrase({ answer: answerOf({ kind: "never", binding: null }), limit })).toMatch(/^the limit met first/);
  const open = answerOf({ kind: "unknown", ratePerS: 0, low: 0, high: null, binding: null });
  expect(limitPhrase({ answer: open, limit })).toMatch(
    /^some calls were refused, perhaps not by the limit that is met first: the dep/,
  );
  expect(limitPhrase({ answer: open, limit: firstLimit([probe(60, { "200": 600 })], 44, false) })).toBeNull();
});

describe("advice", () => {
  const demand = demandOf({ peak_rps: 60, growth: 1.25, headroom: 0.2 });

  test("replicas by what one carries for certain", () => {
    const lines = advise(answerOf(), limitBy("429 b2b_overloaded"), { replicas: 2, organizations: 12 }, demand);
    expect(lines.join(" ")).toMatch(
      /= 90\.0\/s.*One replica carries 20\.0\/s for certain.*Replicas needed: 5 \(2 now\)/,
    );
  });

  test("one organization's cap is not the deployment's capacity", () => {
    const lines = advise(answerOf(), limitBy("429 org_overloaded"), { replicas: 2, organizations: 1 }, demand).join(
      " ",
    );
    expect(lines).toMatch(/the capacity of the one organization .* not of the deployment/);
    expect(lines).toMatch(/3 organizations can send 90\.0\/s/);
    expect(lines).not.toMatch(/[Rr]eplicas needed/);
  });

  test("replicas of the API do not help where the limiter is the limit", () => {
    const lines = advise(answerOf(), limitBy("429 limiter_unavailable"), { replicas: 2, organizations: 12 }, demand);
    expect(lines.join(" ")).toMatch(/do not help/);
  });
});

describe("a demand", () => {
  test.each<[number, Partial<Answer>, string]>([
    [39, {}, "pass"],
    [44, {}, "inconclusive"],
    [49, {}, "fail"],
    [39, { kind: "at-least", high: null }, "pass"],
    [49, { kind: "at-least", high: null }, "inconclusive"],
    [1, { kind: "never", ratePerS: 0, low: 0, high: 0.5 }, "fail"],
    [39, { kind: "unknown" }, "inconclusive"],
  ])("of %d/s", (peak_rps, more, verdict) => {
    const limit = limitBy("429 b2b_overloaded");
    expect(demandVerdict({ answer: answerOf(more), limit }, demandOf({ peak_rps })).verdict).toBe(verdict);
  });

  test.each([
    ["429 org_overloaded", "inconclusive"],
    ["429 rate_limited", "inconclusive"],
    ["429 limiter_unavailable", "fail"],
  ])("beyond what is found is not refuted by a limit of those who sent: %s", (outcome, verdict) => {
    const found = { answer: answerOf(), limit: limitBy(outcome) };
    expect(demandVerdict(found, demandOf({ peak_rps: 49 })).verdict).toBe(verdict);
    expect(demandVerdict(found, demandOf({ peak_rps: 39 })).verdict).toBe("pass");
  });

  test.each([
    [[], /JSON like/],
    [{}, /peak_rps/],
    [{ peak_rps: "60" }, /peak_rps is "60"/],
    [{ peak_rps: 60, growht: 1 }, /growht is not known/],
    [{ peak_rps: 0 }, /peak_rps is 0/],
    [{ peak_rps: 60, headroom: -0.1 }, /headroom is -0.1/],
  ])("%j is refused with what was expected", (value, message) => {
    expect(() => demandOf(value)).toThrow(message);
  });
});

describe("claims", () => {
  const foundOf = (more: Partial<Answer>, demand: Found["demand"] = null): Found => ({
    answer: answerOf(more),
    limit: limitBy("429 b2b_overloaded"),
    advice: [],
    demand,
    calls: 9,
    objectives: ["refusals<=1%", "p99<=300ms"],
  });
  const verdicts = (found: Found) =>
    capacityClaims(found, "capacity", "again").map(({ id, level, verdict }) => `${id} ${level} ${verdict}`);

  test("found is a pass, not decided is inconclusive, broken everywhere is a fail", () => {
    expect(verdicts(foundOf({}))).toEqual(["capacity/refusals<=1% must pass", "capacity/p99<=300ms must pass"]);
    expect(verdicts(foundOf({ kind: "at-least", high: null }))[0]).toBe("capacity/refusals<=1% must inconclusive");
    expect(verdicts(foundOf({ kind: "unknown" }))[0]).toBe("capacity/refusals<=1% must inconclusive");
    expect(verdicts(foundOf({ kind: "never", low: 0 }))[0]).toBe("capacity/refusals<=1% must fail");
  });

  test("with a demand, the demand decides", () => {
    expect(verdicts(foundOf({ kind: "at-least", high: null }, demandOf({ peak_rps: 30 })))).toEqual([
      "capacity/refusals<=1% info inconclusive",
      "capacity/p99<=300ms info inconclusive",
      "capacity/demand must pass",
    ]);
  });

  test("the measurement has the interval", () => {
    expect(capacityMeasurement(foundOf({}), "capacity")).toMatchObject([
      { name: "capacity_rps", value: 44, low: 40, high: 48, n: 9, unit: "1/s" },
    ]);
    expect(capacityMeasurement(foundOf({ kind: "unknown", high: null }), "capacity")).toEqual([]);
  });
});

describe("the table", () => {
  const rows = [probe(1234.5, { "200": 12_345 }), probe(60, { "200": 600 }, 60), probe(60, { "200": 600 }, 0, 90)];
  const objectives = Array.from({ length: 5 }, (_, i) => ({ text: `ttfe_p99<=${i}00000ms`, limit: 0.01 }));

  test("fits 80 columns and says of each probe what it decided", () => {
    const shown = rows.map((row) => ({ ...row, shown: objectives.map(() => "1234567 ms") }));
    const lines = probeTable(shown, objectives);
    for (const n of [1, 2, 3, 4, 5]) {
      const widths = probeTable(shown, objectives.slice(0, n)).map((line) => line.length);
      expect(Math.max(...widths), `${n}`).toBeLessThanOrEqual(80);
    }
    expect(lines[1]).toMatch(/met$/);
    expect(lines[2]).toMatch(/broken$/);
    expect(lines[3]).toMatch(/left out$/);
    expect(lines.at(-1)).toMatch(/more objective/);
  });
});

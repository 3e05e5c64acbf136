import { describe, expect, test } from "vitest";
import type { Answer, Demand } from "./capacity-claims.ts";
import { compareReplicas, type OfReplicas } from "./replicas.ts";

const found = (ratePerS: number, within = 0.07): Answer => ({
  ...{ kind: "found", ratePerS, low: ratePerS / (1 + within), high: ratePerS * (1 + within), binding: 0 },
  ...{ reason: "confirmed", generator: "on time" },
});
const unknown: Answer = { ...found(0), kind: "unknown", low: 0, high: null, binding: null, reason: "not ready" };

const of = (replicas: number, answer: Answer): OfReplicas => ({
  ...{ replicas, answer, advice: [], demand: null, objectives: ["refusals<=1%"], calls: 1_000 },
  limit: { owner: "deployment", outcome: "429 b2b_overloaded", share: 0.1, sentence: "its own slots" },
});

const compared = (rows: readonly OfReplicas[], asked: { demand?: Demand; ofReplicas?: number } = {}) => {
  const { demand = null, ofReplicas = null } = asked;
  const { lines, claims } = compareReplicas(rows, { demand, ofReplicas }, "", "npx floodgate capacity");
  const verdicts = Object.fromEntries(claims.map(({ id, verdict }) => [id.replace("capacity/", ""), verdict]));
  return { text: lines.join("\n"), verdicts, claims };
};

const demanded = (peakPerS: number): Demand => ({ peakPerS, growth: 1, headroom: 0 });

describe("how replicas scale", () => {
  test.each<[string, OfReplicas[], RegExp]>([
    ["two carry twice as much", [of(1, found(100)), of(2, found(196))], /: proportional, within the interval/],
    ["the order of measurement is free", [of(2, found(196)), of(1, found(100))], /^2 replicas carry 1.96 times/m],
    [
      "a shared limit",
      [of(1, found(100)), of(2, found(150))],
      /less than the 2.00 times[^;]*; the limit met first: its own/,
    ],
    ["three are as much as one", [of(1, found(100)), of(3, found(103))], /check that scale.set took effect/],
    ["more than proportional", [of(1, found(100)), of(2, found(260))], /more than the 2.00 times/],
    ["wide intervals", [of(1, found(100, 0.3)), of(2, found(180, 0.3))], /too wide an interval/],
  ])("%s", (_, rows, expected) => {
    const { text, verdicts } = compared(rows);
    expect(text).toMatch(expected);
    expect(verdicts).toEqual({ replicas: "pass" });
  });

  test("what carries half as much again is less than proportional, and no reason to doubt scale.set", () => {
    expect(compared([of(1, found(100)), of(2, found(165))]).text).not.toContain("check that");
  });

  test("nothing is said of a number that was not measured", () => {
    const { text, verdicts } = compared([of(1, found(100)), of(2, unknown)]);
    expect(text).not.toMatch(/times|proportional/);
    expect(verdicts).toEqual({ replicas: "inconclusive" });
  });
});

describe("a demand", () => {
  const three = [of(1, found(100)), of(2, found(200)), of(3, found(300))];

  test.each<[number, string, RegExp]>([
    [80, "pass", /^1 replica: the smallest measured/m],
    [180, "pass", /^2 replicas: the smallest measured/m],
    // Within the interval of two replicas.
    [195, "pass", /^3 replicas: the smallest measured.*Not decided: 2\./ms],
    [300, "inconclusive", /^No measured number/m],
    [400, "fail", /^No measured number.*Too few: 1, 2, 3\./ms],
  ])("of %d/s", (peakPerS, verdict, expected) => {
    const { text, verdicts } = compared(three, { demand: demanded(peakPerS) });
    expect(verdicts).toMatchObject({ demand: verdict });
    expect(text).toMatch(expected);
  });

  test("is not refuted by a number that was not measured", () => {
    const { verdicts } = compared([of(1, found(100)), of(2, unknown)], { demand: demanded(150) });
    expect(verdicts).toMatchObject({ demand: "inconclusive" });
  });

  test.each<[number, string]>([
    [150, "pass"],
    [250, "fail"],
    [200, "inconclusive"],
  ])("of %d/s without one of three replicas", (peakPerS, verdict) => {
    const { verdicts } = compared(three, { demand: demanded(peakPerS), ofReplicas: 3 });
    expect(verdicts).toMatchObject({ demand: "pass", "without-one-replica": verdict });
  });
});

test("a limit of those who sent leaves a demand open, with what to do about it", () => {
  const limit = { owner: "organization", outcome: "429 org_overloaded", share: 0.1, sentence: "a cap" } as const;
  const bound = [1, 2].map((count) => ({ ...of(count, found(100)), limit, advice: ["Add tenants."] }));
  const { text, verdicts } = compared(bound, { demand: demanded(400) });
  expect(verdicts).toMatchObject({ demand: "inconclusive" });
  expect(text.match(/Add tenants/g)).toHaveLength(1);
});

test("without a demand the share that is left without one replica is measured, and judged by nothing", () => {
  const { text, claims } = compared([of(2, found(200)), of(3, found(300))], { ofReplicas: 3 });
  expect(text).toMatch(/Without one of 3 replicas 67 % is left \(6\d % to 7\d %, 95 %\)/);
  expect(claims.map(({ id, level }) => [id, level])).toEqual([["capacity/replicas", "info"]]);
});

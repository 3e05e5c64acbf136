import { describe, expect, test } from "vitest";
import { uniform } from "../workload/random.ts";
import { compareRecorded, type RunFigures } from "./recorded-comparison.ts";

const run = (seed: number, times = 1, more: Partial<RunFigures> = {}): RunFigures => ({
  id: `run-${seed}`,
  profile: "smoke",
  environment: { os: "Linux", cores: 2, cpu: "some", node: "26.1.0" },
  measurements: [
    { stage: "load", name: "latency_ms_p50", value: times * (200 + 4 * uniform(seed, 0, 1)), unit: "ms" },
    { stage: "load", name: "achieved_rate", value: 10 * times, unit: "1/s" },
  ],
  claims: [{ id: "streams-end-once/load", level: "must", verdict: "pass" }],
  ...more,
});
const runs = (from: number, count: number, times = 1): RunFigures[] =>
  Array.from({ length: count }, (_, n) => run(from + n, times));

describe("recorded runs beside recorded runs", () => {
  test("are a regression when they are slower than the margin and than chance", () => {
    const found = compareRecorded(runs(0, 6), runs(10, 6, 1.1));
    expect(found).toMatchObject({ verdict: "regression", reasons: ["worse than allowed: load latency_ms_p50"] });
    expect(found.rows).toHaveLength(1);
    expect(found.rows[0]?.worseBy).toBeCloseTo(1.1, 1);
  });

  test("may be as much slower as a stated margin allows", () => {
    const verdictAt = (margin: number) =>
      compareRecorded(runs(0, 6), runs(10, 6, 1.1), { latency_ms_p50: margin }).verdict;
    expect([verdictAt(1.2), verdictAt(1.06)]).toEqual(["no-regression", "regression"]);
  });

  test("are none when they are the same, and an improvement passes", () => {
    expect(compareRecorded(runs(0, 6), runs(10, 6)).verdict).toBe("no-regression");
    expect(compareRecorded(runs(0, 6), runs(10, 6, 0.8)).verdict).toBe("no-regression");
  });

  test.each([
    ["knee_rps", 60, 50],
    ["goodput_retention", 0.99, 0.9],
    ["goodput_retention_5", 0.97, 0.8],
    ["closed_form", 0.99, 0.8],
    ["jain_index", 0.999, 0.9],
    ["isolation", 1, 0.9],
    ["false_sheds", 0, 0.02],
    ["excess_sheds", 0.02, 0.1],
    ["hysteresis", 0.01, 0.06],
    ["refusal_price", -0.3, 0.05],
    ["wasted_work", 0, 0.05],
    ["oscillation", 1, 4],
    ["amplification", 1, 1.4],
    ["slots_leaked", 0, 3],
    ["reaction_ms", 300, 900],
    ["recovery_ms", 400, 2_000],
    ["refusal_at_top_ms_p99", 5, 40],
  ])("%s of a shedding curve is worse at %d -> %d, and the other way round it is not", (name, good, bad) => {
    const having = (from: number, value: number): RunFigures[] =>
      Array.from({ length: 6 }, (_, n) =>
        run(from + n, 1, { measurements: [{ stage: "shedding-curve", name, value, unit: "ratio" }] }),
      );
    expect(compareRecorded(having(0, good), having(10, bad)).verdict).toBe("regression");
    expect(compareRecorded(having(0, bad), having(10, good)).verdict).toBe("no-regression");
    expect(compareRecorded(having(0, good), having(10, good)).verdict).toBe("no-regression");
  });

  test("a price below nothing is chance, not better or worse than nothing", () => {
    const having = (from: number, value: number): RunFigures[] =>
      Array.from({ length: 6 }, (_, n) =>
        run(from + n, 1, { measurements: [{ stage: "curve", name: "refusal_price", value, unit: "ratio" }] }),
      );
    expect(compareRecorded(having(0, -0.3), having(10, 0)).verdict).toBe("no-regression");
  });

  test("decide nothing when they are few, however loud", () => {
    const found = compareRecorded(runs(0, 1), runs(10, 1, 3));
    expect(found.verdict).toBe("inconclusive");
    expect(found.reasons[0]).toMatch(/^too few runs to decide by \(1 beside 1\)/);
  });

  test("are a regression already as one, when a claim that held fails now", () => {
    const claims = [{ id: "streams-end-once/load", level: "must", verdict: "fail" } as const];
    const found = compareRecorded(runs(0, 1), [run(1, 1, { claims })]);
    expect(found).toMatchObject({ verdict: "regression", broken: ["streams-end-once/load"] });
    expect(compareRecorded([run(0, 1, { claims })], [run(1, 1, { claims })]).broken).toEqual([]);
  });

  test("that lack a measurement of the earlier ones are not said to be no worse in it", () => {
    const knee = { stage: "curve", name: "knee_rps", value: 50, unit: "1/s" };
    const having = (from: number, count: number, withKnee: number): RunFigures[] =>
      runs(from, count).map((one, k) => (k < withKnee ? { ...one, measurements: [...one.measurements, knee] } : one));
    const lost = /^not measured in every later run.*: curve knee_rps\./;
    for (const left of [0, 5]) {
      const found = compareRecorded(having(0, 6, 6), having(10, 6, left));
      expect(found.verdict).toBe("inconclusive");
      expect(found.reasons[1]).toMatch(lost);
    }
    expect(compareRecorded(having(0, 6, 6), runs(10, 6, 1.1)).reasons[1]).toMatch(lost);
    const sparse = compareRecorded(having(0, 6, 5), having(10, 6, 6));
    expect(sparse.verdict).toBe("no-regression");
    expect(sparse.reasons[1]).toMatch(/^not measured in every earlier run.*: curve knee_rps/);
    expect(compareRecorded(runs(0, 6), having(10, 6, 6)).reasons).toHaveLength(1);
  });

  describe("with a claim of one verdict before and another after", () => {
    type Verdict = RunFigures["claims"][number]["verdict"];
    const having = (from: number, ...verdicts: (Verdict | null)[]): RunFigures[] =>
      runs(from, 6).map((one, k) => {
        const verdict = verdicts[k % verdicts.length] ?? null;
        const more = verdict === null ? [] : [{ id: "answered/load", level: "must" as const, verdict }];
        return { ...one, claims: [...one.claims, ...more] };
      });

    test.each<[Verdict, Verdict | null]>([
      ["pass", "inconclusive"],
      ["pass", "skipped"],
      ["pass", null],
      ["inconclusive", "fail"],
      ["skipped", "fail"],
    ])("%s and %s decide nothing, and the claim is named", (was, is) => {
      const { verdict, reasons } = compareRecorded(having(0, was), having(10, is));
      expect([verdict, reasons[1]]).toEqual(["inconclusive", expect.stringContaining("answered/load")]);
    });

    test.each<[Verdict[], Verdict[]]>([
      [["pass"], ["pass", "inconclusive"]],
      [["pass", "inconclusive"], ["inconclusive"]],
      [["inconclusive"], ["pass"]],
      [["fail"], ["inconclusive"]],
      [["fail"], ["fail"]],
    ])("%s and %s are no worse", (was, is) => {
      expect(compareRecorded(having(0, ...was), having(10, ...is)).verdict).toBe("no-regression");
    });
  });

  test("are not compared in times where they were offered another rate, and in all else they are", () => {
    const at = (from: number, ratePerS: number, times: number): RunFigures[] =>
      runs(from, 6, times).map((one) => {
        const more = [
          { stage: "load", name: "offered_rate", value: ratePerS, unit: "1/s" },
          { stage: "curve", name: "knee_rps", value: 50 / times, unit: "1/s" },
        ];
        return { ...one, measurements: [...one.measurements, ...more] };
      });
    const apart = compareRecorded(at(0, 20, 1), at(10, 40, 1));
    expect(apart.verdict).toBe("inconclusive");
    expect(apart.reasons).toContainEqual(
      expect.stringMatching(/^offered another rate.*: load \(20\.0\/s before, 40\.0\/s after\)/),
    );
    expect(compareRecorded(at(0, 20, 1), at(10, 40, 1.3)).reasons[0]).toBe("worse than allowed: curve knee_rps");
    expect(compareRecorded(at(0, 20, 1), at(10, 22, 1)).verdict).toBe("no-regression");
  });

  test("are not more of them because one is given twice", () => {
    const found = compareRecorded(runs(0, 6), [...runs(10, 5), run(10)]);
    expect([found.verdict, found.reasons[0]]).toEqual(["inconclusive", expect.stringMatching(/run-10 is given twice/)]);
  });

  test("are not compared with themselves", () => {
    const found = compareRecorded(runs(0, 6), [...runs(10, 5), run(3)]);
    expect([found.verdict, found.reasons[0]]).toEqual([
      "inconclusive",
      expect.stringMatching(/run-3 is given on both/),
    ]);
  });

  test("are not compared across machines, nor with nothing", () => {
    const environment = { os: "Linux", cores: 64, cpu: "other", node: "26.1.0" };
    expect(compareRecorded(runs(0, 6), [run(1, 1, { environment })]).reasons[0]).toMatch(/not of one kind/);
    expect(compareRecorded([], runs(0, 6)).verdict).toBe("inconclusive");
    expect(compareRecorded([run(0, 1, { measurements: [] })], runs(1, 1)).reasons[0]).toMatch(
      /no measurement in common/,
    );
  });
});
